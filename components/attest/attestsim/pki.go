package attestsim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"
)

// The validity of all certificates: fixed, so that they are the same each time.
var (
	notBefore = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(2049, 12, 31, 0, 0, 0, 0, time.UTC)
)

// derive expands seed for one label.
func derive(seed []byte, label string, size int) ([]byte, error) {
	return hkdf.Key(sha256.New, seed, []byte("cadre attestsim"), label, size)
}

// deriveP256 makes the P-256 key of one label.
func deriveP256(seed []byte, label string) (*ecdsa.PrivateKey, error) {
	// A value that is no scalar has a chance of 2^-32; the next attempt is as good.
	for attempt := range 8 {
		raw, err := derive(seed, fmt.Sprintf("p256/%s/%d", label, attempt), 32)
		if err != nil {
			return nil, err
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw); err == nil {
			return key, nil
		}
	}
	return nil, fmt.Errorf("no P-256 key for %q", label)
}

// steady signs with nonces from the message (RFC 6979), and ignores the source of randomness: the
// same certificate comes out the same.
type steady struct{ *ecdsa.PrivateKey }

func (s steady) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return s.PrivateKey.Sign(nil, digest, opts)
}

// subject is a full Intel subject; the organisation names the simulation.
func subject(cn string) pkix.Name {
	return pkix.Name{
		CommonName:   cn,
		Organization: []string{"SIMULATED"},
		Locality:     []string{"Santa Clara"},
		Province:     []string{"CA"},
		Country:      []string{"US"},
	}
}

// template has the common fields of all certificates of the chain. The subject key id and the CRL
// distribution point are there because Intel's have them: the leaf must have exactly six
// extensions.
func template(cn string, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(spki)
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(id[:15]),
		Subject:               subject(cn),
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		SignatureAlgorithm:    x509.ECDSAWithSHA256,
		BasicConstraintsValid: true,
		SubjectKeyId:          id[:20],
		CRLDistributionPoints: []string{"https://crl.simulated.invalid/crl.der"},
	}, nil
}

func caTemplate(cn string, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	t, err := template(cn, key)
	if err != nil {
		return nil, err
	}
	t.IsCA = true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return t, nil
}

func makeRoot(key *ecdsa.PrivateKey) ([]byte, error) {
	t, err := caTemplate("Intel SGX Root CA", key)
	if err != nil {
		return nil, err
	}
	return sign(t, t, key, key)
}

// sign issues a certificate and returns it as PEM.
func sign(t, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(nil, t, parent, key.Public(), steady{parentKey})
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func parsePEMCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// host is one simulated machine: its PCK chain and its attestation key stay the
// same, so its device id does.
type host struct {
	pckKey, attestationKey *ecdsa.PrivateKey
	ppid                   []byte
	chain                  []byte // PEM leaf, intermediate, root, NUL
	leaf                   *x509.Certificate
	userData               []byte // of the quote header, 20 bytes
	updated                bool   // has the level that Posture.Replaced asks for
}

// hostNamed returns the machine of that name.
func (c *Cloud) hostNamed(name string) (*host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.hosts[name]; h != nil {
		return h, nil
	}
	h, err := c.makeHost(name, c.registered[registeredName(name)])
	if err != nil {
		return nil, fmt.Errorf("make simulated host %q: %w", name, err)
	}
	c.hosts[name] = h
	return h, nil
}

// platformCA is the intermediate that issues for every machine.
func (c *Cloud) platformCA() (key *ecdsa.PrivateKey, cert *x509.Certificate, text []byte, err error) {
	return c.issued("Intel SGX PCK Platform CA", "platform-ca", true)
}

// issued makes a certificate under the root.
func (c *Cloud) issued(name, label string, ca bool) (key *ecdsa.PrivateKey, cert *x509.Certificate, text []byte, err error) {
	if key, err = deriveP256(c.seed, label); err != nil {
		return nil, nil, nil, err
	}
	form := template
	if ca {
		form = caTemplate
	}
	t, err := form(name, key)
	if err != nil {
		return nil, nil, nil, err
	}
	if !ca {
		t.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment
	}
	if text, err = sign(t, c.root, key, c.rootKey); err != nil {
		return nil, nil, nil, err
	}
	cert, err = parsePEMCertificate(text)
	return key, cert, text, err
}

// makeHost makes the machine of that name after it was registered again so many times.
func (c *Cloud) makeHost(name string, again int) (*host, error) {
	// An update of the firmware leaves the machine's registration alone.
	registration := registeredName(name)
	if again > 0 {
		name = fmt.Sprintf("%s/registration-%d%s", registration, again, strings.TrimPrefix(name, registration))
		registration = registeredName(name)
	}
	caKey, ca, caPEM, err := c.platformCA()
	if err != nil {
		return nil, err
	}
	h := &host{}
	if h.pckKey, err = deriveP256(c.seed, "pck/"+name); err != nil {
		return nil, err
	}
	if h.attestationKey, err = deriveP256(c.seed, "attestation-key/"+name); err != nil {
		return nil, err
	}
	if h.ppid, err = derive(c.seed, "ppid/"+registration, 16); err != nil {
		return nil, err
	}
	instance, err := derive(c.seed, "platform-instance/"+registration, 16)
	if err != nil {
		return nil, err
	}
	if h.userData, err = derive(c.seed, "user-data/"+name, 20); err != nil {
		return nil, err
	}
	leaf, err := template("Intel SGX PCK Certificate", h.pckKey)
	if err != nil {
		return nil, err
	}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment
	pce := pceSVN
	if strings.HasSuffix(name, updated) {
		pce++
		h.updated = true
	}
	sgx, err := sgxExtension(h.ppid, instance, pce)
	if err != nil {
		return nil, err
	}
	leaf.ExtraExtensions = []pkix.Extension{sgx}
	leafPEM, err := sign(leaf, ca, h.pckKey, caKey)
	if err != nil {
		return nil, err
	}
	if h.leaf, err = parsePEMCertificate(leafPEM); err != nil {
		return nil, err
	}
	h.chain = append(h.chain, leafPEM...)
	h.chain = append(h.chain, caPEM...)
	h.chain = append(h.chain, c.rootPEM...)
	h.chain = append(h.chain, 0)
	return h, nil
}

// cpuSVN is the TCB level of every simulated machine, except an updated one.
var cpuSVN = []byte{5, 5, 2, 2, 3, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0}

const pceSVN = 11

const updated = " (updated)"

// UpdatedHost is the name of the machine after an update to the level that Posture.Replaced
// asks for.
func UpdatedHost(name string) string { return name + updated }

// MachineName is the name of a machine of this cloud by its number, from 0. Machine 0 is the only
// one of a small cloud, and its name is empty. A negative number is machine 0.
func MachineName(number int) string {
	if number <= 0 {
		return ""
	}
	return fmt.Sprintf("machine-%d", number)
}

// registeredName is the name without the mark of an update.
func registeredName(name string) string { return strings.TrimSuffix(name, updated) }

// Reregister gives the machine of that name another registration, as a factory reset of its SGX
// keys does: other keys, another PPID and another platform instance. Guests that run keep the old
// one, since a real reset ends them. The registration lasts as long as c.
func (c *Cloud) Reregister(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name = registeredName(name)
	c.registered[name]++
	delete(c.hosts, name)
	delete(c.hosts, UpdatedHost(name))
}

// teeTCBSVN is that of the TDX module, version 1, svn 7.
var teeTCBSVN = [16]byte{7, 1, 3}

// HealthyTEETCBSVN is the TEE_TCB_SVN that every simulated machine shows.
func HealthyTEETCBSVN() [16]byte { return teeTCBSVN }

// fmspc names the machine type; this one does not exist.
var fmspc = []byte{'S', 'I', 'M', 0, 0, 0}

func sgxOID(arcs ...int) asn1.ObjectIdentifier {
	return append(asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}, arcs...)
}

// sgxExtension is SEQUENCE of SEQUENCE{OID, value}: PPID, TCB, PCE id, FMSPC, SGX type (1: scalable),
// platform instance id, configuration. The platform CA writes all seven.
func sgxExtension(ppid, instance []byte, pce int) (pkix.Extension, error) {
	type pair struct {
		ID    asn1.ObjectIdentifier
		Value any
	}
	var tcb []pair
	for i, svn := range cpuSVN {
		tcb = append(tcb, pair{sgxOID(2, i+1), int(svn)})
	}
	tcb = append(tcb, pair{sgxOID(2, 17), pce}, pair{sgxOID(2, 18), cpuSVN})
	value, err := asn1.Marshal([]pair{
		{sgxOID(1), ppid},
		{sgxOID(2), tcb},
		{sgxOID(3), []byte{0, 0}},
		{sgxOID(4), fmspc},
		{sgxOID(5), asn1.Enumerated(1)},
		{sgxOID(6), instance},
		{sgxOID(7), []pair{{sgxOID(7, 1), true}, {sgxOID(7, 2), false}, {sgxOID(7, 3), true}}},
	})
	return pkix.Extension{Id: sgxOID(), Value: value}, err
}
