package admit_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/agent/internal/durable"
)

// boot starts another Boot of the CVM with the preserved disk dir.
func boot(t *testing.T, w *agenttest.World, dir, named string) (*admit.Client, error) {
	t.Helper()
	pin, err := admit.OpenPin(durable.OpenDisk(dir, slog.New(slog.DiscardHandler)), named)
	if err != nil {
		return nil, err
	}
	trust := w.Trust()
	trust.ClusterID = named
	client, _ := newPinned(t, w, trust, pin)
	return client, nil
}

// TestGEN02_ATT30_IDN08_AnAgentBelongsToTheFirstClusterIDThatAdmittedIt: a second set of
// coordinators of the same app, with the same trust file and genuine evidence, gets no data from
// the agent at any later boot. The error names both cluster IDs and the remedy.
func TestGEN02_ATT30_IDN08_AnAgentBelongsToTheFirstClusterIDThatAdmittedIt(t *testing.T) {
	w, dir := agenttest.NewWorld(t), t.TempDir()
	first := agenttest.NewCoordinator(w)
	first.Start(t)
	client, err := boot(t, w, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := w.Second(t)
	second := agenttest.NewCoordinator(other)
	second.Start(t) // the gateway leads to it from now on
	refused := func(client *admit.Client, what string) {
		t.Helper()
		_, err := client.Admit(t.Context())
		for _, want := range []string{"CLUSTER_MISMATCH", agenttest.ClusterID, agenttest.SecondClusterID, `roll out a trust file with "cluster_id": "` + agenttest.SecondClusterID} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
		if admit.Code(err) != "CLUSTER_MISMATCH" || len(second.Boots()) > 0 {
			t.Errorf("%s: code %s, %d boots sent data about themselves", what, admit.Code(err), len(second.Boots()))
		}
	}
	refused(client, "the boot that was admitted")
	if client, err = boot(t, other, dir, ""); err != nil {
		t.Fatal(err)
	}
	refused(client, "the next boot on its disk")
	if client, err = boot(t, other, t.TempDir(), agenttest.ClusterID); err != nil {
		t.Fatal(err)
	}
	refused(client, "an empty disk, and a trust file that names the first cluster ID")

	// On purpose: the measured trust file names the other one, and that counts from then on.
	for _, named := range []string{agenttest.SecondClusterID, ""} {
		if client, err = boot(t, other, dir, named); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Admit(t.Context()); err != nil {
			t.Errorf("with the trust file's cluster ID %q: %v", named, err)
		}
	}
}

// TestGEN02_ADamagedPinIsNotNone: with a damaged pin the agent starts only if the trust file names
// the cluster ID.
func TestGEN02_ADamagedPinIsNotNone(t *testing.T) {
	for _, text := range []string{"", "{}", `{"cluster_id":"x"}`, strings.Repeat(" ", 1<<20)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cluster-id.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := admit.OpenPin(durable.OpenDisk(dir, slog.New(slog.DiscardHandler)), ""); err == nil || !strings.Contains(err.Error(), "DISK_IDENTITY_MISMATCH") || !strings.Contains(err.Error(), `"cluster_id"`) {
			t.Errorf("%.20q: %v", text, err)
		}
		if _, err := admit.OpenPin(durable.OpenDisk(dir, slog.New(slog.DiscardHandler)), agenttest.ClusterID); err != nil {
			t.Errorf("%.20q, named by the trust file: %v", text, err)
		}
	}
}
