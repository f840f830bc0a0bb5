// The scanner of logs: what it finds in them, and what it makes of damage. Logs written by
// RocksDB itself are scanned in rocks_store_test.cc.
#include "storage/log_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "storage/crc32c.h"
#include "storage/group_mark.h"
#include "storage/log_reader.h"
#include "tests/support/log_writer.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

using test::LogWriter;
using testing::HasSubstr;

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(ExtendCrc32c(Crc32c("1234"), "56789"), 0xe3069283u);
  EXPECT_EQ(MaskCrc32c(0), 0xa282ead8u);
}

TEST(GroupMark, RoundTripAndForm) {
  const std::string blob = EncodeGroupMark({0x0102, UINT64_MAX});
  EXPECT_EQ(blob, std::string("SGMK\x01\0\0\0\0\0\0\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff", 21));
  const auto mark = DecodeGroupMark(blob);
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->group, 0x0102u);
  EXPECT_EQ(mark->synced_through, UINT64_MAX);
  EXPECT_FALSE(DecodeGroupMark(blob.substr(1)));
  EXPECT_FALSE(DecodeGroupMark(blob + "x"));
  EXPECT_FALSE(DecodeGroupMark("XGMK" + blob.substr(4)));
  EXPECT_FALSE(DecodeGroupMark(""));
}

class LogScannerTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.File(name); }

  // Group numbers of the intact records in a log (0: no mark), and "!reason" for damage.
  std::vector<std::string> Events(const LogWriter& log) {
    log.WriteTo(Path("events"));
    std::vector<std::string> events;
    uint64_t end = 0;
    EXPECT_TRUE(ReadLog(Path("events"), [&](const LogEvent& event) {
                  EXPECT_LE(end, event.begin);
                  EXPECT_LT(event.begin, event.end);
                  end = event.end;
                  if (event.kind == LogEvent::Kind::kRecord) {
                    events.push_back(std::to_string(event.mark ? event.mark->group : 0));
                  } else {
                    events.push_back(std::string("!") + event.reason);
                  }
                }).ok());
    EXPECT_LE(end, log.bytes().size());
    return events;
  }

  absl::StatusOr<LogScan> Scan(uint64_t flushed_through = 0, uint64_t first_log = 0) const {
    return ScanLogs(folder_.path(), first_log, flushed_through);
  }

  test::TempFolder folder_;
};

using Strings = std::vector<std::string>;

TEST_F(LogScannerTest, ReadsRecordsOfAllSizes) {
  LogWriter log;
  log.Group(1, 0, 0)
      .Group(2, 1, LogWriter::kBlockBytes)
      .Unmarked()
      .Group(3, 2, 5 << 20)
      .Group(4, 3);
  EXPECT_EQ(Events(log), (Strings{"1", "2", "0", "3", "4"}));
}

TEST_F(LogScannerTest, ReadsRecordsWhereverTheBorderOfABlockFalls) {
  for (size_t before_border = 0; before_border < 70; ++before_border) {
    LogWriter log;
    // The first record ends `before_border` bytes before the end of the block.
    const size_t overhead = LogWriter::kHeaderBytes + 12 + 2 + kGroupMarkBytes;
    log.Group(1, 0, LogWriter::kBlockBytes - overhead - before_border).Group(2, 1).Group(3, 2);
    EXPECT_EQ(Events(log), (Strings{"1", "2", "3"})) << before_border;
  }
}

TEST_F(LogScannerTest, FindsTheNextRecordAfterDamageOfAnyByte) {
  LogWriter whole;
  whole.Group(1, 0).Group(2, 1);
  const size_t second = whole.bytes().size() / 2;
  whole.Group(3, 2);
  for (size_t i = second; i < 2 * second; ++i) {
    LogWriter log = whole;
    log.bytes()[i] ^= 0x40;
    const Strings events = Events(log);
    ASSERT_EQ(events.size(), 3u) << i;
    EXPECT_EQ(events[0], "1");
    EXPECT_EQ(events[1][0], '!');
    EXPECT_EQ(events[2], "3");
  }
}

TEST_F(LogScannerTest, FindsTheNextRecordAfterMissingAndAddedBytes) {
  LogWriter first;
  first.Group(1, 0);
  LogWriter log = first;
  log.Group(2, 1).Group(3, 2);
  log.bytes().erase(first.bytes().size() + 3, 9);
  EXPECT_EQ(Events(log), (Strings{"1", "!no record", "3"}));
  log = first;
  log.bytes() += "xyz";
  log.Group(2, 1);
  EXPECT_EQ(Events(log).back(), "2");
  EXPECT_EQ(Events(log).size(), 3u);
}

TEST_F(LogScannerTest, ACutAnywhereLosesOnlyTheLastRecord) {
  LogWriter two;
  two.Group(1, 0).Group(2, 1);
  LogWriter log = two;
  log.Group(3, 2, LogWriter::kBlockBytes + 100);
  const std::string whole = log.bytes();
  for (size_t length = two.bytes().size(); length < whole.size(); length += 37) {
    log.bytes() = whole.substr(0, length);
    const Strings events = Events(log);
    ASSERT_GE(events.size(), 2u);
    EXPECT_EQ(events[1], "2");
    EXPECT_EQ(events.size(), length == two.bytes().size() ? 2u : 3u) << length;
  }
}

TEST_F(LogScannerTest, ZerosAreToldFromOtherDamage) {
  LogWriter log;
  log.Group(1, 0);
  log.bytes().append(100'000, '\0');
  EXPECT_EQ(Events(log), (Strings{"1", "!zeros"}));
  log.bytes().resize(200'000);
  log.bytes()[150'000] = 'x';
  EXPECT_EQ(Events(log).size(), 2u);
  LogWriter empty;
  EXPECT_EQ(Events(empty), Strings{});
}

TEST_F(LogScannerTest, FragmentsWithoutBeginningOrEndAreDamage) {
  LogWriter log;
  log.Fragment(3, "middle").Fragment(4, "last").Group(1, 0).Fragment(2, "first").Group(2, 1);
  log.Fragment(2, "first");
  EXPECT_EQ(Events(log), (Strings{"!the end of a record without its beginning", "1",
                                  "!a record without an end", "2", "!a record without an end"}));
}

TEST_F(LogScannerTest, FormsThatStintNeverWritesAreDamage) {
  LogWriter log;
  log.Fragment(5, "recycled").Group(1, 0);
  EXPECT_EQ(Events(log), (Strings{"!a form of log that Stint never writes", "1"}));
  LogWriter small;
  small.Record("eleven byte").Group(1, 0);
  EXPECT_EQ(Events(small), (Strings{"!a record too short for a batch", "1"}));
}

TEST_F(LogScannerTest, NoLogsAndEmptyLogs) {
  ASSERT_TRUE(Scan(7).ok());
  EXPECT_EQ(Scan(7)->last_group, 7u);
  LogWriter().WriteTo(Path("000004.log"));
  LogWriter().WriteTo(Path("000009.log"));
  const auto scan = Scan(7);
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 7u);
  EXPECT_EQ(scan->readable_bytes, (std::map<uint64_t, uint64_t>{{4, 0}, {9, 0}}));
  EXPECT_EQ(scan->dropped_from, "");
}

TEST_F(LogScannerTest, FollowsGroupsOverLogsInOrderOfNumbers) {
  LogWriter a, b, c;
  a.Group(1, 0).Group(2, 1);
  b.Group(3, 2);
  c.Group(4, 3).Group(5, 3);
  a.WriteTo(Path("000009.log"));
  b.WriteTo(Path("000010.log"));
  c.WriteTo(Path("1000000.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 5u);
  EXPECT_EQ(scan->readable_bytes.at(9), a.bytes().size());
  EXPECT_EQ(scan->readable_bytes.at(1'000'000), c.bytes().size());
}

TEST_F(LogScannerTest, LooksAtNoOtherFile) {
  for (const char* name : {"000001.sst", "LOG", "x.log", ".log", "12.logs", "-1.log"}) {
    LogWriter().Group(9, 8).WriteTo(Path(name));
  }
  EXPECT_EQ(Scan()->last_group, 0u);
  EXPECT_EQ(LogNumber("000012.log"), 12u);
  EXPECT_FALSE(LogNumber("99999999999999999999999.log"));
}

TEST_F(LogScannerTest, OldLogsAreSkipped) {
  LogWriter().Group(9, 8).WriteTo(Path("000003.log"));
  LogWriter().Group(1, 0).WriteTo(Path("000005.log"));
  const auto scan = Scan(0, 5);
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 1u);
  EXPECT_EQ(scan->readable_bytes.count(3), 0u);
}

TEST_F(LogScannerTest, ATornTailThatNobodyWasToldAboutIsDropped) {
  LogWriter log;
  log.Group(1, 0).Group(2, 1);
  const size_t good = log.bytes().size();
  log.Group(3, 2);
  log.bytes().resize(log.bytes().size() - 1);
  log.WriteTo(Path("000004.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 2u);
  EXPECT_EQ(scan->readable_bytes.at(4), good);
  EXPECT_EQ(scan->dropped_bytes, log.bytes().size() - good);
  EXPECT_EQ(scan->dropped_records, 0u);
  EXPECT_THAT(scan->dropped_from, HasSubstr("000004.log at offset " + std::to_string(good)));
}

TEST_F(LogScannerTest, AZeroFilledTailIsNoLoss) {
  LogWriter log;
  log.Group(1, 0).Group(2, 1);
  const size_t good = log.bytes().size();
  log.bytes().append(4096, '\0');
  log.WriteTo(Path("000004.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 2u);
  EXPECT_EQ(scan->readable_bytes.at(4), good);
  EXPECT_EQ(scan->dropped_from, "");
  EXPECT_EQ(scan->dropped_bytes, 0u);
}

TEST_F(LogScannerTest, DamageBelowAClaimRefusesWithFileAndOffset) {
  LogWriter log;
  log.Group(1, 0).Group(2, 1);
  const size_t good = log.bytes().size();
  log.Group(3, 2).Group(4, 3);
  log.bytes()[good + 30] ^= 1;
  log.WriteTo(Path("000004.log"));
  const auto scan = Scan();
  ASSERT_EQ(scan.status().code(), absl::StatusCode::kDataLoss);
  const std::string text(scan.status().message());
  EXPECT_THAT(text, HasSubstr("CORRUPT_RECORD: group 3 "));
  EXPECT_THAT(text, HasSubstr("000004.log at offset " + std::to_string(good)));
  EXPECT_THAT(text, HasSubstr("checksum mismatch"));
  EXPECT_THAT(text, HasSubstr("restore the newest checkpoint"));
}

TEST_F(LogScannerTest, ZerosInTheMiddleBelowAClaimRefuse) {
  LogWriter log;
  log.Group(1, 0);
  const size_t begin = log.bytes().size();
  log.Group(2, 1, LogWriter::kBlockBytes).Group(3, 2);
  for (size_t i = begin; i < LogWriter::kBlockBytes; ++i) log.bytes()[i] = 0;
  log.WriteTo(Path("000004.log"));
  EXPECT_EQ(Scan().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(LogScannerTest, DamageAboveEveryClaimDropsAllBehindIt) {
  LogWriter log;
  log.Group(1, 0).Group(2, 1);
  const size_t good = log.bytes().size();
  log.Group(3, 2).Group(4, 2);
  log.bytes()[good + 30] ^= 1;
  log.WriteTo(Path("000004.log"));
  LogWriter().Group(5, 2).WriteTo(Path("000005.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 2u);
  EXPECT_EQ(scan->readable_bytes, (std::map<uint64_t, uint64_t>{{4, good}, {5, 0}}));
  EXPECT_EQ(scan->dropped_records, 2u);
}

TEST_F(LogScannerTest, AMissingLogBelowAClaimRefuses) {
  LogWriter().Group(1, 0).WriteTo(Path("000004.log"));
  LogWriter().Group(3, 2).Group(4, 3).WriteTo(Path("000006.log"));
  const auto scan = Scan();
  ASSERT_EQ(scan.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(scan.status().message()),
              HasSubstr("000006.log at offset 0 (group 3 where group 2 should be)"));
}

TEST_F(LogScannerTest, GroupsMissingBehindTheFlushedOnesRefuse) {
  LogWriter().Group(8, 7).Group(9, 8).WriteTo(Path("000006.log"));
  EXPECT_TRUE(Scan(7).ok());
  EXPECT_EQ(Scan(7)->last_group, 9u);
  EXPECT_EQ(Scan(6).status().code(), absl::StatusCode::kDataLoss);
  // Flushed further than the logs reach back.
  EXPECT_EQ(Scan(8)->last_group, 9u);
}

TEST_F(LogScannerTest, ALogDroppedByAFormerStartIsNoHole) {
  // Group 3 was torn, group 4 behind it dropped; the next run wrote 3 and 4 again.
  LogWriter old;
  old.Group(1, 0).Group(2, 1);
  const size_t good = old.bytes().size();
  old.Group(3, 2).Group(4, 2);
  old.bytes()[good + 30] ^= 1;
  old.WriteTo(Path("000004.log"));
  LogWriter fresh;
  fresh.Group(3, 2).Group(4, 3).Group(5, 4);
  fresh.WriteTo(Path("000008.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 5u);
  EXPECT_EQ(scan->readable_bytes,
            (std::map<uint64_t, uint64_t>{{4, good}, {8, fresh.bytes().size()}}));
}

TEST_F(LogScannerTest, WhatStandsBeforeTheNextGroupInALaterLogIsNotDropped) {
  LogWriter old;
  old.Group(1, 0);
  const size_t good = old.bytes().size();
  old.Group(3, 0);
  old.WriteTo(Path("000004.log"));
  LogWriter fresh;
  fresh.Unmarked().Group(2, 0);
  fresh.WriteTo(Path("000008.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->readable_bytes,
            (std::map<uint64_t, uint64_t>{{4, good}, {8, fresh.bytes().size()}}));
  EXPECT_EQ(scan->dropped_records, 1u);
  EXPECT_EQ(scan->dropped_bytes, old.bytes().size() - good);
}

TEST_F(LogScannerTest, ALaterLogDoesNotHideAClaimBehindAHole) {
  LogWriter old;
  old.Group(1, 0);
  const size_t good = old.bytes().size();
  old.Group(2, 1).Group(3, 2);
  old.bytes()[good + 30] ^= 1;
  old.WriteTo(Path("000004.log"));
  LogWriter().Group(2, 1).Group(3, 2).WriteTo(Path("000008.log"));
  EXPECT_EQ(Scan().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(LogScannerTest, ATornEndOfAnOlderLogIsNoHoleWhenTheNextGroupFollows) {
  LogWriter old;
  old.Group(1, 0);
  const size_t good = old.bytes().size();
  old.Fragment(2, "begin of what failed");
  old.WriteTo(Path("000004.log"));
  LogWriter().Group(2, 1).Group(3, 2).WriteTo(Path("000005.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 3u);
  EXPECT_EQ(scan->readable_bytes.at(4), good);
}

TEST_F(LogScannerTest, GroupsOutOfOrderEndTheSequence) {
  LogWriter log;
  log.Group(1, 0).Group(2, 1);
  const size_t good = log.bytes().size();
  log.Group(2, 1).Group(3, 1);
  log.WriteTo(Path("000004.log"));
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->last_group, 2u);
  EXPECT_EQ(scan->readable_bytes.at(4), good);
}

TEST_F(LogScannerTest, AClaimThatNoLogCanProveRefuses) {
  LogWriter().Group(1, 5).WriteTo(Path("000004.log"));
  EXPECT_EQ(Scan().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(LogScannerTest, AnUnreadableFolderIsAnError) {
  EXPECT_EQ(ScanLogs(Path("none"), 0, 0).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace stint::storage
