package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// trusting trusts only the CA in dir.
func trusting(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	raw, err := os.ReadFile(CAFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		t.Fatalf("%s has no certificate", CAFile(dir))
	}
	return pool
}

// TestGatewayEndsTLSWhereTheNameSaysSo: a web server that knows no TLS is reached by HTTPS,
// under a certificate that only the cloud's CA makes good.
func TestGatewayEndsTLSWhereTheNameSaysSo(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Host+" "+string(raw))
	}))
	defer web.Close()
	g, addr := serve(t, func(id string) []Backend {
		if id != idA {
			return nil
		}
		return []Backend{to(web.Listener.Addr().String(), "live")}
	})
	roots := x509.NewCertPool()
	ca, err := x509.ParseCertificate(g.cfg.Certificate.Certificate[1])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	for _, label := range []string{idA + "-8080", idA} {
		transport.TLSClientConfig.ServerName = label + "." + domain
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+"/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = label + "." + domain
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(raw) != req.Host+" body" {
			t.Errorf("%s: %q, %v", label, raw, err)
		}
	}
	for name, c := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"unknown id":         {&tls.Config{ServerName: strings.Repeat("f", 40) + "-80." + domain, RootCAs: roots}, "unrecognized name"},
		"nobody's CA":        {&tls.Config{ServerName: idA + "-80." + domain, RootCAs: x509.NewCertPool()}, "unknown authority"},
		"no common protocol": {&tls.Config{ServerName: idA + "-80." + domain, RootCAs: roots, NextProtos: []string{"h2"}}, "no application protocol"},
	} {
		want := c.want
		if c, err := tls.Dial("tcp", addr, c.config); err == nil {
			c.Close()
			t.Errorf("%s: connected", name)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	c, err := tls.Dial("tcp", addr, &tls.Config{ServerName: idA + "-80g." + domain, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("with g: protocol %q", got)
	}
	g.Drop("live")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a connection of a CVM that went ends as if it were done")
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection of a CVM that went stays")
	}
}

func TestTheGatewaysCAStays(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "gateway"), time.Now()
	if _, err := Certify(dir, domain, now); err != nil {
		t.Fatal(err)
	}
	roots := trusting(t, dir)
	verify := func(c tls.Certificate, name string, at time.Time) error {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at})
		return err
	}
	next := now.Add(300 * 24 * time.Hour)
	again, err := Certify(dir, domain, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(again, idA+"-80."+domain, next); err != nil {
		t.Errorf("the next start's certificate: %v", err)
	}
	if err := verify(again, "example.com", next); err == nil {
		t.Error("it is good for example.com")
	}
	// A thief of the CA's key can sign for the domain alone.
	other, err := Certify(dir, "elsewhere.test", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(other, "x.elsewhere.test", now); err == nil {
		t.Error("the CA of one domain is good for another")
	}
	if info, err := os.Stat(filepath.Join(dir, caKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the CA's key: %v, %v", info.Mode(), err)
	}
}

// TestAnIncompleteCAIsMadeAgain: a kill or a power cut between key and certificate.
func TestAnIncompleteCAIsMadeAgain(t *testing.T) {
	other := t.TempDir()
	if _, err := Certify(other, domain, time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, half := range map[string]func(dir string) error{
		"the key of the next": func(dir string) error {
			raw, err := os.ReadFile(filepath.Join(other, caKeyFile))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, caKeyFile), raw, 0o600))
		},
		"an empty key":         func(dir string) error { return os.WriteFile(filepath.Join(dir, caKeyFile), nil, 0o600) },
		"an empty certificate": func(dir string) error { return os.WriteFile(CAFile(dir), nil, 0o600) },
		"no certificate":       func(dir string) error { return os.Remove(CAFile(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "gateway")
			if _, err := Certify(dir, domain, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := half(dir); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				own, err := Certify(dir, domain, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				leaf, err := x509.ParseCertificate(own.Certificate[0])
				if err != nil {
					t.Fatal(err)
				}
				if _, err := leaf.Verify(x509.VerifyOptions{Roots: trusting(t, dir), DNSName: idA + "-80." + domain}); err != nil {
					t.Errorf("what people are told to trust did not sign it: %v", err)
				}
			}
		})
	}
}
