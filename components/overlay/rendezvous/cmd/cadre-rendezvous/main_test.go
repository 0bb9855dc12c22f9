package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &out, &errs); code != 0 {
		t.Errorf("--help ends with %d", code)
	}
	for _, want := range []string{"--relay-ip", "--roots", "--allow-private-relay", "liveness", "(default :443)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
	if out.Reset(); run(t.Context(), []string{"--version"}, &out, &errs) != 0 || !strings.HasPrefix(out.String(), "cadre-rendezvous ") {
		t.Errorf("version prints %q", out.String())
	}
}

func TestWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--roots is required":             {"--relay-ip=198.51.100.7"},
		"--relay-ip is required":          {"--roots=x"},
		`--relay-ip "::1"`:                {"--roots=x", "--relay-ip=::1"},
		`--relay-bind "host"`:             {"--roots=x", "--relay-ip=198.51.100.7", "--relay-bind=host"},
		`--relay-ports "80-90"`:           {"--roots=x", "--relay-ip=198.51.100.7", "--relay-ports=80-90"},
		`--relay-ports "2000"`:            {"--roots=x", "--relay-ip=198.51.100.7", "--relay-ports=2000"},
		"--tls-cert and --tls-key":        {"--roots=x", "--stun=", "--tls-cert=x"},
		"are for a self-signed":           {"--roots=x", "--stun=", "--tls-cert=x", "--tls-key=y", "--ca-out=z"},
		`unexpected argument "serve"`:     {"--roots=x", "--stun=", "serve"},
		`--log-level "loud"`:              {"--roots=x", "--stun=", "--log-level=loud"},
		`--listen "443"`:                  {"--roots=x", "--stun=", "--listen=443"},
		"--max-members 0":                 {"--roots=x", "--stun=", "--max-members=0"},
		"--credential-life 1h0m0s":        {"--roots=x", "--stun=", "--credential-life=1h"},
		"flag provided but not defined":   {"--rots=x"},
		"invalid value":                   {"--max-members=many"},
		"Run cadre-rendezvous --help for": {"--nope"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d, says %q, want 2 and %q", args, code, errs.String(), want)
		}
	}
}

func TestAGivenCertificateWins(t *testing.T) {
	o, err := parse([]string{"--roots=x", "--stun=", "--tls-cert=x", "--tls-key=y", "--state-dir=z"}, io.Discard)
	if err != nil || o.config.CertFile != "x" || o.config.StateDir != "z" {
		t.Fatalf("certificate and state directory together: %+v, error %v", o.config, err)
	}
	// As the unit and the compose file start it: with a directory always.
	dir, ended := t.TempDir(), t.Context()
	ended, cancel := context.WithCancel(ended)
	cancel()
	args := []string{"--roots", t.TempDir(), "--listen=127.0.0.1:0", "--admin=", "--stun=", "--state-dir", dir}
	var out, errs bytes.Buffer
	if code := run(ended, args, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	empty := t.TempDir()
	args = append(args, "--state-dir", empty, "--tls-cert", dir+"/rendezvous.pem", "--tls-key", dir+"/rendezvous-key.pem")
	if code := run(ended, args, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if files, err := os.ReadDir(empty); err != nil || len(files) != 0 {
		t.Errorf("%d files in the state directory, want none, error %v", len(files), err)
	}
	if !strings.Contains(errs.String(), "state directory not used") {
		t.Errorf("the log does not say it: %s", errs.String())
	}
}

func TestStartsAndStops(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	args := []string{"--roots", t.TempDir(), "--listen=127.0.0.1:0", "--admin=", "--stun=127.0.0.1:0", "--relay-ip=127.0.0.1", "--drain=0s", "--ca-out", t.TempDir() + "/ca.pem"}
	if code := run(ended, args, &out, &errs); code != 0 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if code := run(ended, append(args, "--roots=/does/not/exist"), &out, &errs); code != 1 {
		t.Errorf("missing roots: exit code %d, want 1", code)
	}
}
