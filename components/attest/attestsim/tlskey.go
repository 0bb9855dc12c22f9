package attestsim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// appCA is the certificate authority that the KMS gives to an app.
type appCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
	root string // the KMS root CA
}

func (k *kms) appCA(appID []byte) (*appCA, error) {
	rootPEM, root, err := kmsCert("Dstack KMS CA", k.ca, nil, k.ca)
	if err != nil {
		return nil, fmt.Errorf("KMS CA: %w", err)
	}
	key, err := deriveP256(k.seed, "app-ca/"+hexOf(appID))
	if err != nil {
		return nil, fmt.Errorf("app CA key: %w", err)
	}
	appPEM, cert, err := kmsCert("Dstack App CA", key, root, k.ca)
	if err != nil {
		return nil, fmt.Errorf("app CA: %w", err)
	}
	return &appCA{key: key, cert: cert, pem: string(appPEM), root: string(rootPEM)}, nil
}

// kmsCert issues a CA certificate; parent nil makes it self-signed.
func kmsCert(cn string, key *ecdsa.PrivateKey, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *x509.Certificate, error) {
	t, err := caTemplate(cn, key)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent = t
	}
	text, err := sign(t, parent, key, parentKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := parsePEMCertificate(text)
	return text, cert, err
}

type tlsKeyRequest struct {
	Subject         string   `json:"subject"`
	AltNames        []string `json:"alt_names"`
	UsageRATLS      bool     `json:"usage_ra_tls"`
	UsageServerAuth bool     `json:"usage_server_auth"`
	UsageClientAuth bool     `json:"usage_client_auth"`
	NotBefore       *int64   `json:"not_before"`
	NotAfter        *int64   `json:"not_after"`
	WithAppInfo     bool     `json:"with_app_info"`
}

type tlsKeyReply struct {
	Key              string   `json:"key"`
	CertificateChain []string `json:"certificate_chain"`
}

// dstackOID is the arc of dstack's certificate extensions.
func dstackOID(arc int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 62397, 1, arc}
}

// getTLSKey makes a new random key each time, under the app's CA.
func (g *Guest) getTLSKey(request tlsKeyRequest) (tlsKeyReply, error) {
	if from, to := request.NotBefore, request.NotAfter; from != nil && to != nil && *from >= *to && g.version.atLeast(0, 6, 0) {
		return tlsKeyReply{}, agentError("not_before must be earlier than not_after")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tlsKeyReply{}, err
	}
	leaf, err := g.tlsTemplate(request, key)
	if err != nil {
		return tlsKeyReply{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, g.appCA.cert, key.Public(), g.appCA.key)
	if err != nil {
		return tlsKeyReply{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tlsKeyReply{}, err
	}
	return tlsKeyReply{
		Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		CertificateChain: []string{
			string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), g.appCA.pem, g.appCA.root,
		},
	}, nil
}

func (g *Guest) tlsTemplate(request tlsKeyRequest, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	serial := sha256.Sum256(spki)
	leaf := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:15]),
		Subject:      pkix.Name{CommonName: request.Subject, Organization: []string{"SIMULATED"}},
		DNSNames:     request.AltNames,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	if g.version.atLeast(0, 5, 6) {
		if request.NotBefore != nil {
			leaf.NotBefore = time.Unix(*request.NotBefore, 0)
		}
		if request.NotAfter != nil {
			leaf.NotAfter = time.Unix(*request.NotAfter, 0)
		}
	}
	if request.UsageServerAuth {
		leaf.ExtKeyUsage = append(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if request.UsageClientAuth {
		leaf.ExtKeyUsage = append(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	contents := map[int][]byte{3: g.appID, 4: []byte("app:custom")}
	if request.UsageRATLS {
		if err := g.addEvidence(contents, sha512.Sum512(append([]byte("ratls-cert:"), spki...))); err != nil {
			return nil, err
		}
	}
	for arc := 1; arc <= 8; arc++ {
		if content, ok := contents[arc]; ok {
			value, err := asn1.Marshal(content)
			if err != nil {
				return nil, err
			}
			leaf.ExtraExtensions = append(leaf.ExtraExtensions, pkix.Extension{Id: dstackOID(arc), Value: value})
		}
	}
	return leaf, nil
}

// addEvidence adds the extensions of an RA-TLS certificate. Agents before 0.5.6 have two, with
// the quote and its log; later ones have one versioned attestation, without the boot events.
func (g *Guest) addEvidence(contents map[int][]byte, data [64]byte) (err error) {
	if g.version.atLeast(0, 5, 6) {
		contents[8], err = g.attestation(data, true)
		return err
	}
	quote, events, err := g.shownQuote(data)
	if err != nil {
		return err
	}
	log, err := logText(events, event.wire)
	contents[1], contents[2] = quote, []byte(log)
	return err
}
