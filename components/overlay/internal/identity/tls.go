package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// The two application protocols of a Session listener.
const (
	// ALPNOverlay: both sides show SVIDs; a Session follows.
	ALPNOverlay = "cadre-overlay/1"
	// ALPNAdmission: the client shows a self-signed boot certificate; one stream
	// to the admission service follows.
	ALPNAdmission = "cadre-admission/1"
	// ALPNRelay: TURN at the port where a rendezvous serves HTTPS (RFC 7443).
	ALPNRelay = "stun.turn"
)

// ServerConfig serves each ALPN with the configuration that pick gives for it.
// Connections that offer none of ours, or both, end in the handshake.
func ServerConfig(pick func(alpn string) (*tls.Config, error)) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if len(hello.SupportedProtos) != 1 {
				return nil, fmt.Errorf("%w: %d offered, want exactly 1", ErrALPN, len(hello.SupportedProtos))
			}
			return pick(hello.SupportedProtos[0])
		},
	}
}

// OverlayServer asks for an SVID of the cluster. Whether its name is admitted
// is the caller's to decide, after the handshake.
func OverlayServer(own tls.Certificate, roots *x509.CertPool, cluster string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// A resumed Session would skip the checks below (OVL-14).
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		NextProtos:                  []string{ALPNOverlay},
		Certificates:                []tls.Certificate{own},
		ClientAuth:                  tls.RequireAndVerifyClientCert,
		ClientCAs:                   roots,
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := Verify(state, roots, cluster, x509.ExtKeyUsageClientAuth)
			return err
		},
	}
}

// OverlayClient expects the Peer want, and its Boot when bootID is not empty.
func OverlayClient(own tls.Certificate, roots *x509.CertPool, serverName string, want ID, bootID string) *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		NextProtos:                  []string{ALPNOverlay},
		Certificates:                []tls.Certificate{own},
		ServerName:                  serverName,
		// The server name routes through the gateway and is in no certificate.
		// VerifyConnection checks the whole chain, and the name that counts.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks more than the default would
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != ALPNOverlay {
				return fmt.Errorf("%w: server chose %q", ErrALPN, state.NegotiatedProtocol)
			}
			got, err := Verify(state, roots, want.Cluster, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			if got.ID != want {
				return fmt.Errorf("%w: reached %s, want %s", ErrMismatch, got.ID, want)
			}
			if bootID != "" && got.BootID != bootID {
				return fmt.Errorf("%w: reached boot %.12s of %s, want %.12s", ErrMismatch, got.BootID, want, bootID)
			}
			return nil
		},
	}
}

// AdmissionServer takes any Boot that can show it holds its key.
func AdmissionServer(own tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		NextProtos:             []string{ALPNAdmission},
		Certificates:           []tls.Certificate{own},
		ClientAuth:             tls.RequireAnyClientCert,
		VerifyConnection:       VerifyBoot,
	}
}

// AdmissionClient opens a first contact.
func AdmissionClient(boot tls.Certificate, serverName string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		NextProtos:             []string{ALPNAdmission},
		Certificates:           []tls.Certificate{boot},
		ServerName:             serverName,
		// Before admission no CA is known. The caller must not believe the
		// server until the server's evidence names this connection's exporter
		// and the key of this certificate.
		InsecureSkipVerify: true, //nolint:gosec // evidence for this connection takes the place of a CA
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != ALPNAdmission {
				return fmt.Errorf("%w: server chose %q", ErrALPN, state.NegotiatedProtocol)
			}
			if n := len(state.PeerCertificates); n == 0 || n > maxChain {
				return fmt.Errorf("%w: %d certificates, want 1 to %d", ErrUntrusted, n, maxChain)
			}
			return nil
		},
	}
}
