package rendezvous

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var address = netip.MustParseAddr("10.213.0.1")

// program writes a script that says how it was called and runs until it is ended.
func program(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "rendezvous")
	text := "#!/bin/sh\necho \"began $*\"\ntrap 'echo ended; exit 0' TERM\nwhile :; do sleep 0.05; done\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramRunsUntilTheEnd(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "logs", "rendezvous.log")
	s, err := New(Config{
		Program: program(t, dir), Dir: filepath.Join(dir, "state"), LogFile: log, Address: address,
		Start: (*exec.Cmd).Start, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	await := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	said := func(word string) int {
		raw, _ := os.ReadFile(log)
		return strings.Count(string(raw), word)
	}
	running := func() bool { return s.Describe().(Info).Running }
	await("it runs", func() bool { return running() && said("began") == 1 })
	raw, _ := os.ReadFile(log)
	for _, want := range []string{"--listen 10.213.0.1:8443", "--stun 10.213.0.1:3478", "--relay-ip 10.213.0.1", "--roots " + s.info.Roots, "--allow-private-relay", "--tls-cert"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("called with %q, want %s", raw, want)
		}
	}
	if err := s.Stop(ctx); err != nil || running() {
		t.Errorf("stopped: %v, still runs: %v", err, running())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	await("it runs again", func() bool { return running() && said("began") == 2 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if running() || said("ended") != 1 {
		t.Errorf("runs %v, ended in order %d times", running(), said("ended"))
	}
}

func TestCertificateIsForTheAddressAndStays(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	read := func() []byte {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir, caFile))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if err := certify(dir, address, now); err != nil {
		t.Fatal(err)
	}
	first := read()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: address.String()}); err != nil {
		t.Error(err)
	}
	if err := certify(dir, address, now.Add(24*time.Hour)); err != nil || string(read()) != string(first) {
		t.Errorf("the next day there is another CA (%v)", err)
	}
	if err := certify(dir, address, now.Add(certificateLife)); err != nil || string(read()) == string(first) {
		t.Errorf("after a year there is the same CA (%v)", err)
	}
}

// TestACAOfAnotherRunIsNotGivenToMembers: a kill between certificate and CA.
func TestACAOfAnotherRunIsNotGivenToMembers(t *testing.T) {
	dir, other, now := t.TempDir(), t.TempDir(), time.Now()
	for _, d := range []string{dir, other} {
		if err := certify(d, address, now); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(other, caFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, caFile), raw, 0o600)
	}
	if err == nil {
		err = certify(dir, address, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(filepath.Join(dir, caFile)); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: address.String()}); err != nil {
		t.Error(err)
	}
}
