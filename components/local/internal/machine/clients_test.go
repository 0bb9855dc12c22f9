package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose"
	"cadre.dev/platform/officialtest"
)

// TestOfficialGuestClients holds the guest's socket to dstack's own SDKs, each with every call that it has. A call
// that a version of the guest does not serve is answered with an error.
func TestOfficialGuestClients(t *testing.T) {
	officialtest.Installed(t)
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	document, err := appcompose.Render("web-0", "services: {web: {image: web}}\n", []string{"SECRET"})
	if err != nil {
		t.Fatal(err)
	}
	// The oldest guest that Cadre takes, the newest of its line, and the next line.
	for _, version := range []string{"0.5.5", attestsim.DefaultAgentVersion, "0.6.0"} {
		guest, err := cloud.Boot(attestsim.BootConfig{
			AppID: "0101010101010101010101010101010101010101", AppCompose: document, InstanceIDSeed: bytes.Repeat([]byte{0xaa}, 20),
			OSImage: "dstack-" + version, AgentVersion: version,
		})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		server, err := serveGuest(t.Context(), dir, guest.Handler())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.close)
		env := []string{
			"SOCKET=" + filepath.Join(dir, guestSocket), "VERSION=" + version, "APP_ID=0101010101010101010101010101010101010101",
			"INSTANCE_ID=" + guest.InstanceID(), "COMPOSE_HASH=" + guest.ComposeHash(),
		}
		for _, c := range []struct{ name, program string }{
			{"npm @phala/dstack-sdk", "guest.mjs"},
			{"PyPI dstack-sdk", "guest.py"},
		} {
			t.Run(version+"/"+c.program, func(t *testing.T) { officialtest.Run(t, c.name+" at dstack "+version, c.program, env...) })
		}
		t.Run(version+"/rust", func(t *testing.T) {
			built := os.Getenv("CADRE_TEST_CLIENTS_RUST")
			if built == "" {
				t.Skip("cargo is not installed: the Rust SDK was left out")
			}
			officialtest.Command(t, "crate dstack-sdk at dstack "+version, []string{built}, env...)
		})
		t.Run(version+"/go", func(t *testing.T) {
			goClient(t, filepath.Join(dir, guestSocket), version, guest, version != "0.5.5", version != "0.6.0")
		})
	}
}
