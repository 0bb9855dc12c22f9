package admit

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"cadre.dev/agent/internal/peers"
	"cadre.dev/attest/statement"
	"cadre.dev/core/clusterid"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// accept checks an answer: credentials for our key and our name, under the CA
// that the coordinator's evidence commits to.
func (c *Client) accept(answer *admissionv1.AdmitResponse, claim statement.Agent, proved statement.Batch) (Admitted, error) {
	grant := answer.GetCredentials()
	id := overlay.ID{Cluster: claim.Cluster, Group: claim.Group, Slot: claim.Slot}
	switch {
	case grant.GetCluster() != id.Cluster || grant.GetGroup() != id.Group || grant.GetSlot() != id.Slot:
		return Admitted{}, fmt.Errorf("read credentials: they are for %s/%s/%s, asked for %s",
			grant.GetCluster(), grant.GetGroup(), grant.GetSlot(), id)
	case grant.GetBootId() != c.cfg.Boot.ID:
		return Admitted{}, errors.New("read credentials: they are for another boot")
	case grant.GetExpiresAt() == nil || !grant.GetExpiresAt().AsTime().After(time.Now()):
		return Admitted{}, errors.New("read credentials: they have expired already; check the clock")
	}
	bundle := sha256.Sum256(grant.GetCaBundlePem())
	if !equal(bundle[:], proved.CABundleSHA256) {
		return Admitted{}, errors.New("read credentials: SVID_UNTRUSTED: the CA bundle differs from the one that the coordinator proved")
	}
	if got := clusterid.OfPEM(grant.GetCaBundlePem()); got != proved.ClusterID {
		return Admitted{}, fmt.Errorf("read credentials: SVID_UNTRUSTED: the CA is of cluster ID %q, the coordinator proved %s", got, proved.ClusterID)
	}
	certificate, roots, err := c.readSVID(grant, id)
	if err != nil {
		return Admitted{}, fmt.Errorf("read credentials: %w", err)
	}
	first, err := peers.FromProto(id.Cluster, answer.GetInitialPeers())
	if err != nil {
		return Admitted{}, fmt.Errorf("read initial peers: %w", err)
	}
	return Admitted{
		ID: id, AppID: claim.AppID, InstanceID: claim.InstanceID, Grant: grant, Peers: first, Since: time.Now(), ExpiresAt: grant.GetExpiresAt().AsTime(),
		Credentials: overlay.Credentials{Certificate: certificate, Roots: roots},
	}, nil
}

func (c *Client) readSVID(grant *admissionv1.Credentials, id overlay.ID) (tls.Certificate, *x509.CertPool, error) {
	none := tls.Certificate{}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(grant.GetCaBundlePem()) {
		return none, nil, errors.New("the CA bundle holds no certificate")
	}
	out := tls.Certificate{PrivateKey: c.cfg.Boot.key}
	chain := x509.NewCertPool()
	for rest := grant.GetSvidChainPem(); ; {
		block, next := pem.Decode(rest)
		if block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return none, nil, fmt.Errorf("svid chain: %w", err)
		}
		if out.Leaf == nil {
			out.Leaf = cert
		} else {
			chain.AddCert(cert)
		}
		out.Certificate = append(out.Certificate, block.Bytes)
		rest = next
	}
	switch {
	case out.Leaf == nil:
		return none, nil, errors.New("svid chain is empty")
	case !equal(out.Leaf.RawSubjectPublicKeyInfo, c.cfg.Boot.PublicKey):
		return none, nil, errors.New("svid is for another key")
	case len(out.Leaf.URIs) != 1 || out.Leaf.URIs[0].String() != id.String():
		return none, nil, fmt.Errorf("SVID_ID_INVALID: svid does not name exactly %s", id)
	case len(out.Leaf.DNSNames)+len(out.Leaf.IPAddresses)+len(out.Leaf.EmailAddresses) > 0:
		return none, nil, fmt.Errorf("SVID_ID_INVALID: svid has names in addition to %s", id)
	case out.Leaf.IsCA:
		return none, nil, errors.New("SVID_ID_INVALID: svid is a CA's certificate")
	}
	if _, err := out.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: chain, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		return none, nil, fmt.Errorf("svid: %w", err)
	}
	return out, roots, nil
}

func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
