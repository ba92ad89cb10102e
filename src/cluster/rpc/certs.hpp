// Certificates for TLS between agents, master and clients: an authority of the cluster's own, and what it signs.
#pragma once

#include <string>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

/// Writes ca.pem, server.pem, client.pem and their keys (mode 600) into a folder. Overwrites nothing. Returns the
/// files.
Result<std::vector<std::string>> makeCertificates(const CertificateOptions& options);

/// What is wrong with a certificate of ours before anybody else sees it: it cannot be read, or is not valid now.
Status checkCertificate(const std::string& path);

}  // namespace tracesmith::cluster
