package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/internal/rig"
)

// TestTOK23_AnOperatorsSecretOutlivesCoordinatorsAndBoots: each value reaches every member as a file,
// another value replaces the file while the members run, and a boot after a restart of all coordinators
// gets the value in force. A boot that lacks a value waits, and its refusal names the command.
func TestTOK23_AnOperatorsSecretOutlivesCoordinatorsAndBoots(t *testing.T) {
	c := readyCluster(t)
	c.cookied(t)
	before := c.look(t)
	began := time.Now()
	value := c.seal(t, "s3-key")
	c.holdsEverywhere(t, "s3-key", value)
	t.Logf("every member has the value %.1f s after the command began", time.Since(began).Seconds())
	if after := c.look(t); after.cvms[c.PlatformName("light-0")].Boots != before.cvms[c.PlatformName("light-0")].Boots {
		t.Error("a new value booted a member")
	}
	const look = `import os; s=os.lstat("/run/mesh/secrets/s3-key"); print(s.st_uid, s.st_gid, oct(s.st_mode), s.st_size)`
	out, err := c.Exec(within(t, 30*time.Second), c.PlatformName("light-0"), "web", "python3", "-c", look)
	if want := fmt.Sprintf("65534 65534 0o100600 %d", len(value)); err != nil || strings.TrimSpace(out) != want {
		t.Errorf("the file is %q, want %q: %v", out, want, err)
	}

	for n := range rig.Coordinators {
		if err := c.Kill(within(t, time.Minute), c.PlatformName(fmt.Sprintf("coordinator-%d", n))); err != nil {
			t.Fatal(err)
		}
	}
	for n := range rig.Coordinators {
		if err := c.Start(within(t, 2*time.Minute), c.PlatformName(fmt.Sprintf("coordinator-%d", n))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the coordinators answer again", 2*time.Minute, func(ctx context.Context) error {
		_, err := c.api.Group(ctx, rig.Light)
		return err
	})
	eventually(t, "a restart by the new coordinators", 2*time.Minute, func(ctx context.Context) error {
		out, err := c.Cadre(ctx, "instance", "restart", "light-0", "--reason", "the test asks", "--wait", "--timeout", "90s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if after := c.look(t); after.cvms[c.PlatformName("light-0")].Boots <= before.cvms[c.PlatformName("light-0")].Boots {
		t.Error("light-0 did not boot")
	}
	c.holdsEverywhere(t, "s3-key", value)

	// A secret without a value: members run on, and a boot waits for the value.
	late := c.edited(t, `  health_check "web" {`, declared+"  secret \"late\" {\n    source = \"operator\"\n  }\n"+`  health_check "web" {`)
	if out, err := c.ApplyLight(within(t, rollTime), late, fmt.Sprint(c.releases)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "the condition that names the command", time.Minute, func(ctx context.Context) error {
		g, err := c.api.Group(ctx, rig.Light)
		for _, one := range g.Status.Conditions {
			if one.Reason == "SECRET_NO_VALUE" && strings.Contains(one.Message, "cadre secret set light/late") {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("conditions: %+v", g.Status.Conditions))
	})
	if err := c.Kill(within(t, time.Minute), c.PlatformName("light-1")); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(within(t, 2*time.Minute), c.PlatformName("light-1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal of a boot", time.Minute, func(ctx context.Context) error {
		out, err := c.Cadre(ctx, "admission", "explain", "light-1")
		if !strings.Contains(out, "SECRET_NO_VALUE") {
			return errors.Join(err, errors.New(out))
		}
		return nil
	})
	last := c.seal(t, "late")
	c.holdsEverywhere(t, "late", last)
	c.holdsEverywhere(t, "s3-key", value)
	if err := c.api.Wait(within(t, rollTime), rig.Light, client.WaitOptions{}); err != nil {
		t.Errorf("the group is not whole: %v", err)
	}

	// Without the declarations neither files nor ciphertexts are left.
	c.roll(t)
	for _, p := range c.agents(t) {
		if names, err := os.ReadDir(p.path("run/mesh/secrets")); err != nil || len(names) > 0 {
			t.Errorf("files without a declaration: %v, %v", names, err)
		}
	}
	eventually(t, "no ciphertext without a declaration", time.Minute, func(context.Context) error {
		_, ours := c.inside(t)
		for _, p := range ours {
			if p.program != "cadre-coordinator" {
				continue
			}
			if page := c.page(t, p, "http://127.0.0.1:8500/v1/kv/cadre/v1/sealed/?keys"); bytes.Contains(page, []byte("sealed/")) {
				return fmt.Errorf("left: %s", page)
			}
		}
		return nil
	})
}

// holdsEverywhere waits until each member's file of a secret has this value.
func (c *cluster) holdsEverywhere(t *testing.T, name string, value []byte) {
	t.Helper()
	eventually(t, "the value of "+name+" in every member", 2*time.Minute, func(context.Context) error {
		agents := c.agents(t)
		if len(agents) != 3 {
			return fmt.Errorf("%d agents run", len(agents))
		}
		for _, p := range agents {
			if got, err := os.ReadFile(p.path("run/mesh/secrets", name)); err != nil || !bytes.Equal(got, value) {
				return fmt.Errorf("process %s has %d bytes, want another value: %w", p.pid, len(got), errors.Join(err, errors.New("not yet")))
			}
		}
		return nil
	})
}

// agents returns one process of each member's agent.
func (c *cluster) agents(t *testing.T) (out []process) {
	t.Helper()
	seen := map[string]bool{}
	_, ours := c.inside(t)
	for _, p := range ours {
		space, err := os.Readlink(filepath.Join("/proc", p.pid, "ns/net"))
		if err == nil && p.program == "cadre-agent" && !seen[space] {
			seen[space] = true
			out = append(out, p)
		}
	}
	return out
}
