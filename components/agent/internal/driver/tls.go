package driver

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"cadre.dev/core/group"
)

// clientTLS returns the TLS configuration for a workload's API from the settings ca_file, cert_file
// and key_file. It is nil if the settings name no authority: the API is without TLS then.
func clientTLS(settings group.SettingValues) (*tls.Config, error) {
	ca, cert, key := settings["ca_file"], settings["cert_file"], settings["key_file"]
	if ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("workload setting ca_file: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("workload setting ca_file: %s holds no certificate", ca)
	}
	if cert != "" {
		// Loaded per handshake, so that rotation needs no restart.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("workload settings cert_file and key_file: %w", err)
			}
			return &pair, nil
		}
	}
	return config, nil
}
