package e2e_terraform

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// everywhere is the answer of an api when it and all three workers are at their releases.
func everywhere(api, release string) map[string]string {
	return map[string]string{api: release, "worker-0": release, "worker-1": release, "worker-2": release}
}

// The starter from nothing to nothing: applied, rolled, one slot alone, killed in the middle of
// waits, destroyed. A repeated apply always reaches the configuration, and no file of Terraform
// contains a secret.
func TestTOK08_StarterIsAppliedRolledInterruptedAndDestroyed(t *testing.T) {
	s := open(t, "starter", 4*time.Minute, map[string]any{"coordinators": 1, "worker_replicas": 3})
	s.run("plan", "-out="+s.planFile("first"))

	// Killed while the groups are made: the next apply adopts the existing ones.
	var c *client.Client
	s.interrupt("cadre_group.worker: Creating...", func() error {
		c = s.dial()
		return s.seen(c, "worker", working)
	}, killAll)
	s.apply()
	for _, api := range []string{"api-0", "api-1"} {
		if said := s.releases(api); !maps.Equal(said, everywhere(api, "1")) {
			t.Errorf("first: %s says %v", api, said)
		}
	}
	groups := []string{"api", "worker"}
	instances := s.instances(c, groups)

	s.run("plan", "-out="+s.planFile("second"), "-var=release=2")

	// The provider is killed in the middle of a rollout, which continues without it.
	s.interrupt("cadre_group.worker: Modifying...", func() error {
		return s.seen(c, "worker", working)
	}, killProviders, "release=2")
	s.apply("release=2")
	if said := s.releases("api-1"); !maps.Equal(said, everywhere("api-1", "2")) {
		t.Errorf("rolled: api-1 says %v", said)
	}
	s.run("plan", "-detailed-exitcode", "-var=release=2") // 2, a failure, when anything is left to do

	// One slot alone.
	one := []string{"release=3", "worker_updates=OPPORTUNISTIC"}
	s.apply(append(one, `-target=cadre_instance.worker["1"]`)...)
	want := everywhere("api-0", "2")
	want["worker-1"] = "3"
	if said := s.releases("api-0"); !maps.Equal(said, want) {
		t.Errorf("one slot: api-0 says %v", said)
	}
	s.apply(one...)
	if said := s.releases("api-0"); !maps.Equal(said, everywhere("api-0", "3")) {
		t.Errorf("all slots: api-0 says %v", said)
	}
	if after := s.instances(c, groups); !maps.Equal(instances, after) {
		t.Errorf("instances were %v and are %v: updates keep them", instances, after)
	}

	known, err := client.LoadContext(s.ContextFile())
	s.must("read the context", err)
	s.run("destroy", "-auto-approve")
	if left := s.cvms(); left != 0 {
		t.Errorf("%d CVMs are left", left)
	}
	if _, err := os.Stat(s.ContextFile()); err == nil {
		t.Error("the context is left")
	}
	s.hasNoSecret(known, nil, "first", "second")
}

func (s *stage) planFile(name string) string { return filepath.Join(s.State, name+".plan") }

// working: the coordinators are changing a Slot of the group.
func working(v client.View) bool {
	return slices.ContainsFunc(v.Status.Instances, func(i group.InstanceStatus) bool { return i.Operation != "" })
}

// instances that fill the Slots of groups; all are to be available.
func (s *stage) instances(c *client.Client, groups []string) map[string]string {
	s.Helper()
	out := map[string]string{}
	for _, name := range groups {
		list, err := c.Instances(s.ctx, name)
		s.must("list the instances", err)
		for _, i := range list {
			if out[i.Slot] = i.InstanceID; i.InstanceID == "" || i.State != "Available" {
				s.Errorf("%s is %s, instance %q", i.Slot, i.State, i.InstanceID)
			}
		}
	}
	return out
}

// cvms counts the CVMs on the platform.
func (s *stage) cvms() int {
	s.Helper()
	cloud, err := s.Cloud()
	s.must("read the cloud", err)
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, strings.TrimSuffix(cloud.APIURL, "/api/v1")+"/_local/cvms", nil)
	s.must("ask the cloud", err)
	req.Header.Set("X-API-Key", cloud.APIKey)
	resp, err := http.DefaultClient.Do(req)
	s.must("ask the cloud", err)
	defer func() { _ = resp.Body.Close() }()
	var list []json.RawMessage
	s.must("read the list", json.NewDecoder(resp.Body).Decode(&list))
	return len(list)
}
