package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/local/internal/fabric"
)

// behindNATs puts CVMs behind full cone NATs and runs a rendezvous that does
// nothing.
func behindNATs(t *testing.T) func(*Config) {
	t.Helper()
	if err := natlab.Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	program := filepath.Join(t.TempDir(), "rendezvous")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nip -4 -o address show dev lo\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		c.Network = fabric.Network{NAT: fabric.FullCone}
		c.Rendezvous = program
	}
}

func TestCVMsBehindNATs(t *testing.T) {
	s := start(t, t.TempDir(), behindNATs(t))
	a, b := s.create("nat-0", fmt.Sprintf(demo, "one")), s.create("nat-1", fmt.Sprintf(demo, "two"))
	network := func(name string) obj {
		code, out := s.call("GET", s.file.LocalURL+"/network/"+name, nil)
		if code != 200 {
			t.Fatalf("network of %s: %d %v", name, code, out)
		}
		return out
	}
	t.Run("the gateway reaches them", func(t *testing.T) {
		for _, c := range []struct {
			cvm  obj
			word string
		}{{a, "one"}, {b, "two"}} {
			s.until(c.word+" answers", func() bool {
				got, err := s.greeting(c.cvm["instance_id"].(string))
				return err == nil && got == c.word
			})
		}
	})
	t.Run("they reach the fabric, and each other by public addresses", func(t *testing.T) {
		na, nb := network("nat-0"), network("nat-1")
		if na["nat"] != "full-cone" || na["public_address"] == nil || na["public_address"] == nb["public_address"] {
			t.Fatalf("networks %v, %v", na, nb)
		}
		if out, code := s.exec("nat-0", "shell", "curl -s -m 5 -o /dev/null -w '%{http_code}' "+s.file.APIURLInCVM+"/auth/me"); code != 0 || out != "401" {
			t.Errorf("the fabric answers %q, %d", out, code)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 1)
		go func() {
			out, _ := s.exec("nat-1", "tls", self+" helper-receive")
			got <- out
		}()
		send := fmt.Sprint(self, " helper-send ", nb["public_address"])
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			s.exec("nat-0", "tls", send)
			select {
			case out := <-got:
				if out != "hello" {
					t.Errorf("got %q", out)
				}
				return
			case <-tick.C:
			}
		}
	})
	t.Run("changes and counters", func(t *testing.T) {
		code, out := s.call("PUT", s.file.LocalURL+"/network/nat-0", obj{"nat": "symmetric", "delay": "5ms", "rate_mbps": 100, "partition": []string{"nat-1"}})
		if code != 200 || out["nat"] != "symmetric" || out["delay"] != "5ms" {
			t.Errorf("changed: %d %v", code, out)
		}
		if got, err := s.greeting(a["instance_id"].(string)); err != nil || got != "one" {
			t.Errorf("afterwards the gateway gives %q, %v", got, err)
		}
		if code, out := s.call("POST", s.file.LocalURL+"/network/nat-0/rebind", nil); code != 204 {
			t.Errorf("rebind: %d %v", code, out)
		}
		code, out = s.call("PUT", s.file.LocalURL+"/firewall", obj{"cvm_to_cvm": "drop"})
		if code != 200 || out["protocols"].(obj)["udp"].(obj)["passed"].(obj)["packets"] == 0.0 {
			t.Errorf("firewall: %d %v", code, out)
		}
	})
	t.Run("rendezvous", func(t *testing.T) {
		code, out := s.call("GET", s.file.LocalURL+"/rendezvous", nil)
		if code != 200 || out["url"] != "https://10.213.0.1:8443" || out["stun"] != "10.213.0.1:3478" || out["running"] != true {
			t.Fatalf("%d %v", code, out)
		}
		ca, err := os.ReadFile(filepath.Join(s.dir, "rendezvous", "ca.pem"))
		if err != nil || string(ca) != out["ca"] {
			t.Errorf("ca.pem: %v", err)
		}
		if raw, err := os.ReadFile(out["log_file"].(string)); err != nil || !strings.Contains(string(raw), "10.213.0.1") {
			t.Errorf("the program saw %q (%v), not the fabric", raw, err)
		}
	})
}
