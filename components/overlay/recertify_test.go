package overlay

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
)

// endsIn is the certificate of n's Boot again, with another end.
func (w *world) endsIn(n *testNode, life time.Duration) Credentials {
	cert := w.ca.IssueFor(w.t, n.id, n.cert.PrivateKey.(*ecdsa.PrivateKey), func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(life)
	})
	return Credentials{Certificate: cert, Roots: w.ca.Pool}
}

// until is when n lets its Session with other end.
func (n *testNode) until(other *testNode) time.Time {
	for _, s := range n.linkTo(other).View().Sessions {
		return s.Expiry.Until()
	}
	return time.Time{}
}

// TestTOK15_SessionsOutliveTheirCertificates: renewed certificates of the same Boot
// take effect on the Sessions that live, both ways, and no connection is lost.
func TestTOK15_SessionsOutliveTheirCertificates(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	short := 3 * time.Second
	a.SetCredentials(w.endsIn(a, short))
	b.SetCredentials(w.endsIn(b, short))
	begin := time.Now()
	conn, _ := established(t, w, a, b)
	first := a.session(t, b)
	a.SetCredentials(w.endsIn(a, time.Hour))
	b.SetCredentials(w.endsIn(b, time.Hour))
	for _, side := range []struct{ at, of *testNode }{{a, b}, {b, a}} {
		eventually(t, "renewed certificate of "+side.of.id.Slot, func() bool { return time.Until(side.at.until(side.of)) > 50*time.Minute })
	}
	// Past the end of the certificate that made the Session.
	<-time.After(time.Until(begin.Add(short + time.Second)))
	ping(t, conn)
	if now := a.session(t, b); now.Since != first.Since {
		t.Errorf("the session was made again at %v", now.Since)
	}
}

// A Session ends if its Peer sends no newer certificate.
func TestTOK15_SessionsEndWithTheirCertificates(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	a.SetCredentials(w.endsIn(a, 2*time.Second))
	conn, _ := established(t, w, a, b)
	wantReset(t, conn)
	eventually(t, "session over", func() bool { return b.until(a).IsZero() })
}

// TestIDN13_RenewedCertificates: only the same name and key extend a Session.
func TestIDN13_RenewedCertificates(t *testing.T) {
	ca, other := identitytest.NewAuthority(t, "c"), identitytest.NewAuthority(t, "c")
	id, key := ca.ID("db", "db-0"), identitytest.Key(t)
	leaf := ca.IssueFor(t, id, key).Leaf
	who := identity.Verified{ID: id, BootID: identity.BootID(leaf), PublicKey: string(leaf.RawSubjectPublicKeyInfo)}
	uri := func(s string) *url.URL { u, _ := url.Parse(s); return u }
	for name, c := range map[string]struct {
		cert tls.Certificate
		good bool
	}{
		"the same boot":       {ca.IssueFor(t, id, key), true},
		"another key":         {ca.Issue(t, id), false},
		"another slot":        {ca.IssueFor(t, ca.ID("db", "db-1"), key), false},
		"another CA":          {other.IssueFor(t, id, key), false},
		"expired":             {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), false},
		"IDN10 two URI names": {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.URIs = append(c.URIs, uri("spiffe://c/db/db-1")) }), false},
		"IDN10 a DNS name":    {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.DNSNames = []string{"coordinator.c.cadre"} }), false},
		"IDN10 an address":    {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }), false},
		"IDN10 an e-mail":     {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.EmailAddresses = []string{"a@c"} }), false},
		"IDN10 no path":       {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://c")} }), false},
		"IDN10 encoded slash": {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://c/db%2Fdb-0/db-0")} }), false},
		"IDN10 other domain":  {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://c2/db/db-0")} }), false},
		"IDN10 upper case":    {ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://c/db/DB-0")} }), false},
	} {
		_, err := identity.VerifyRenewed(c.cert.Certificate, who, ca.Pool, x509.ExtKeyUsageClientAuth)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := identity.VerifyRenewed([][]byte{{1}}, who, ca.Pool, x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("junk is taken")
	}
}

// After a renewal during the handshake, either side sends the new certificate on the Session
// that was made with the old one.
func TestTOK15_ACertificateThatIsRenewedDuringTheHandshake(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	a.SetCredentials(w.endsIn(a, 10*time.Minute))
	b.SetCredentials(w.endsIn(b, 10*time.Minute))
	// a dials, and b does not know it yet: the handshake is over, the Session is not there.
	a.SetPeers([]Peer{a.sees(b, nil, nil)})
	eventually(t, "a connection that waits for the map", func() bool { return b.current.Parked() == 1 })
	a.SetCredentials(w.endsIn(a, time.Hour))
	b.SetCredentials(w.endsIn(b, time.Hour))
	b.SetPeers([]Peer{b.sees(a, nil, nil)})
	for _, side := range []struct{ at, of *testNode }{{a, b}, {b, a}} {
		side.at.session(t, side.of)
		eventually(t, "renewed certificate of "+side.of.id.Slot, func() bool { return time.Until(side.at.until(side.of)) > 50*time.Minute })
	}
	if made := b.maker.Made(); made != 1 {
		t.Errorf("%d sessions were made, want the one of before the renewal", made)
	}
}
