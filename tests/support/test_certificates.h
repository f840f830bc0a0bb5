// Certificates made on the spot, so that no test depends on a date or keeps a key in a file:
// an authority, and certificates signed by it.
// Threads: one.
#ifndef STINT_TESTS_SUPPORT_TEST_CERTIFICATES_H_
#define STINT_TESTS_SUPPORT_TEST_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace stint::testing {

struct Pem {
  std::string certificate;
  std::string key;
};

class TestAuthority {
 public:
  TestAuthority() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free) {
    certificate_ = Make("test authority", key_.get(), nullptr);
  }

  std::string pem() const { return ToPem(certificate_.get()); }

  // Valid for localhost and 127.0.0.1.
  Pem Issue(const std::string& common_name) const {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  EVP_PKEY_free);
    const Certificate certificate = Make(common_name, key.get(), certificate_.get());
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {ToPem(certificate.get()), Contents(bio.get())};
  }

 private:
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static std::string Contents(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<size_t>(size));
  }

  static std::string ToPem(X509* certificate) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_X509(bio.get(), certificate);
    return Contents(bio.get());
  }

  // `issuer` nullptr: signs itself, as an authority.
  Certificate Make(const std::string& common_name, EVP_PKEY* key, X509* issuer) const {
    Certificate certificate(X509_new(), X509_free);
    X509* const raw = certificate.get();
    X509_set_version(raw, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(raw), issuer == nullptr ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(raw), -3600);
    X509_gmtime_adj(X509_getm_notAfter(raw), 24 * 3600);
    X509_set_pubkey(raw, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(raw), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                               0);
    X509_set_issuer_name(raw, X509_get_subject_name(issuer == nullptr ? raw : issuer));
    Extend(raw, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (issuer != nullptr) Extend(raw, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    X509_sign(raw, key_.get(), EVP_sha256());
    return certificate;
  }

  static void Extend(X509* certificate, int nid, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  Certificate certificate_{nullptr, X509_free};
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_TEST_CERTIFICATES_H_
