package sds

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// issue makes a certificate that is its own CA.
func issue(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTOK16_ModesOfTheFiles(t *testing.T) {
	old := syscall.Umask(0) // as careless as can be
	defer syscall.Umask(old)
	for name, c := range map[string]struct {
		gid  int
		mode os.FileMode
	}{"root alone": {0, 0o400}, "with a group": {os.Getgid() + 1, 0o440}} {
		if c.gid != 0 && os.Getuid() != 0 {
			continue
		}
		dir := filepath.Join(t.TempDir(), "tls")
		f, err := Open(dir, c.gid)
		if err != nil {
			t.Fatal(err)
		}
		cert, ca := issue(t, "one")
		if err := f.Write(cert, ca); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "tls.key"))
		if err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("%s: key has mode %v (%v), want %v", name, info.Mode(), err, c.mode)
		}
		for _, file := range names {
			info, err := os.Stat(filepath.Join(dir, file))
			if err != nil || info.Mode().Perm()&0o022 != 0 {
				t.Errorf("%s: %s has mode %v (%v)", name, file, info.Mode(), err)
			}
		}
	}
}

// TestReadersSeeOneRenewal: certificate and key match at every moment, when read below one resolved
// folder, and no file is left behind.
func TestReadersSeeOneRenewal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	f, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	cert, ca := issue(t, "first")
	if err := f.Write(cert, ca); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			at, err := os.Readlink(filepath.Join(dir, "..data"))
			if err != nil {
				t.Errorf("the link is gone: %v", err)
				return
			}
			_, err = tls.LoadX509KeyPair(filepath.Join(dir, at, "tls.crt"), filepath.Join(dir, at, "tls.key"))
			if err != nil && !os.IsNotExist(err) { // a renewal came between
				t.Error(err)
				return
			}
		}
	})
	for n := range 30 {
		cert, ca := issue(t, fmt.Sprint(n))
		if err := f.Write(cert, ca); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	reader.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names)+2 { // ..data and its target
		t.Errorf("%d entries (%v), want %d", len(entries), err, len(names)+2)
	}
}

const envoyConfig = `
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
node: { id: test, cluster: test }
static_resources:
  listeners:
  - name: tls
    address: { socket_address: { address: 127.0.0.1, port_value: %[1]d } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.echo
        typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo }
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificate_sds_secret_configs:
            - name: svid
              sds_config: { resource_api_version: V3, path_config_source: { path: %[2]s/sds.yaml, watched_directory: { path: %[2]s } } }
            validation_context_sds_secret_config:
              name: ca
              sds_config: { resource_api_version: V3, path_config_source: { path: %[2]s/sds-ca.yaml, watched_directory: { path: %[2]s } } }
`

// envoy finds the binary below .tools of this repository or on PATH.
func envoy(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if at := filepath.Join(dir, ".tools/bin/envoy"); exec.Command(at, "--version").Run() == nil {
			return at
		}
	}
	if at, err := exec.LookPath("envoy"); err == nil {
		return at
	}
	t.Fatal("envoy is neither in .tools/bin nor on PATH: run make tools")
	return ""
}

// TestTOK15_EnvoyServesTheRenewedCertificate: the same process serves the new certificate to new
// connections, and existing connections continue.
func TestTOK15_EnvoyServesTheRenewedCertificate(t *testing.T) {
	binary := envoy(t)
	dir := filepath.Join(t.TempDir(), "tls")
	f, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	cert, ca := issue(t, "first")
	if err := f.Write(cert, ca); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().(*net.TCPAddr)
	_ = ln.Close()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, envoyConfig, at.Port, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // test
	cmd := exec.Command(binary, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s", text)
		}
	})
	open := awaitServed(t, at.String(), cert)
	for n := range 3 {
		cert, ca = issue(t, fmt.Sprintf("renewed-%d", n))
		begin := time.Now()
		if err := f.Write(cert, ca); err != nil {
			t.Fatal(err)
		}
		_ = awaitServed(t, at.String(), cert).Close()
		t.Logf("renewed certificate is served after %v", time.Since(begin).Round(time.Millisecond))
	}
	if _, err := open.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := open.Read(make([]byte, 1)); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
	_ = open.Close()
}

// awaitServed connects until the server presents the certificate.
func awaitServed(t *testing.T, at string, want tls.Certificate) *tls.Conn {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// The listener's validation context asks for a certificate of ours; any does.
		conn, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{want}})
		if err == nil {
			if string(conn.ConnectionState().PeerCertificates[0].Raw) == string(want.Certificate[0]) {
				return conn
			}
			_ = conn.Close()
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("the certificate is not served (%v)", err)
		}
	}
}
