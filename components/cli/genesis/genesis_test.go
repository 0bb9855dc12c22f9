package genesis

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/platform/phala"
	"cadre.dev/platform/platformtest"
)

const clusterFile = `cluster "demo" {
  platform "phala" {
    api_url = "http://unused"
    api_key = "k"
  }
  gateway {
    domain  = "gw.test"
    address = "127.0.0.1:1"
  }
  coordinator {
    compose       = "services:\n  coordinator:\n    image: c@sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
    env           = { CADRE_PLATFORM_API = cadre.platform_api, CADRE_PLATFORM_API_KEY = cadre.platform_api_key }
  }
  trust {
    key_provider {
      name = "kms"
      id   = "ab"
    }
  }
}
`

type bench struct {
	fake *platformtest.Fake
	opts Options
	said []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.hcl")
	if err := os.WriteFile(path, []byte(clusterFile), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := groupfile.Load([]string{path}, groupfile.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{fake: platformtest.NewFake()}
	url, stop := b.fake.Serve()
	t.Cleanup(stop)
	cloud, err := phala.New(phala.Config{BaseURL: url, APIKey: platformtest.Key, ReadBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	b.opts = Options{Cluster: file.Clusters[0], ContextPath: filepath.Join(dir, "demo.json"), Cloud: cloud, APIKey: "key-of-cloud",
		Poll: 5 * time.Millisecond, Say: func(s string) { b.said = append(b.said, s) }}
	return b
}

// create runs until the coordinators should answer; none answers on a fake cloud.
func (b *bench) create(t *testing.T) (client.Context, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	o := b.opts
	o.Say = func(s string) {
		b.opts.Say(s)
		if strings.Contains(s, "prove itself") {
			cancel()
		}
	}
	return Create(ctx, o)
}

func (b *bench) names(t *testing.T) []string {
	t.Helper()
	list, err := b.opts.Cloud.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, i := range list {
		out = append(out, i.Name)
	}
	return out
}

var three = []string{"demo-coordinator-0", "demo-coordinator-1", "demo-coordinator-2"}

func TestCreateMakesCoordinatorsOnce(t *testing.T) {
	b := newBench(t)
	c, err := b.create(t)
	if err == nil || !strings.Contains(err.Error(), "last answer") {
		t.Errorf("Create on a cloud whose CVMs run nothing: %v", err)
	}
	if got := b.names(t); !slices.Equal(got, three) {
		t.Errorf("CVMs = %v", got)
	}
	for n, name := range three {
		if env := b.fake.Env(name); env["CADRE_SLOT"] != Slot(n) || env["CADRE_PLATFORM_API_KEY"] != "key-of-cloud" {
			t.Errorf("env of %s = %v", name, env)
		}
	}
	saved, err := client.LoadContext(b.opts.ContextPath)
	if err != nil || saved.Token == "" || saved.CoordinatorAppID != c.CoordinatorAppID || len(saved.CoordinatorComposeHashes) != 1 ||
		saved.Trust.OperatorTokenSHA256 != tokenDigest(saved.Token) || saved.Trust.CoordinatorAppID != saved.CoordinatorAppID || saved.Trust.Cluster != "demo" {
		t.Errorf("context = %+v, %v", saved, err)
	}
	list, err := b.opts.Cloud.List(t.Context(), saved.CoordinatorAppID)
	if err != nil || len(list) != 3 || list[0].ComposeHash != saved.CoordinatorComposeHashes[0] {
		t.Errorf("CVMs of the allotted app: %v, %v", list, err)
	}
	before := len(b.fake.Calls())
	again, _ := b.create(t)
	if again.Token != saved.Token || again.CoordinatorAppID != saved.CoordinatorAppID {
		t.Error("a second run made another cluster")
	}
	for _, call := range b.fake.Calls()[before:] {
		if !strings.HasSuffix(call, "/provision") && !strings.HasSuffix(call, "/status/batch") {
			t.Errorf("a second run changed something: %s", call)
		}
	}
	if err := Delete(t.Context(), b.opts.Cloud, saved, b.opts.Say); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if got := b.names(t); len(got) != 0 {
		t.Errorf("after Delete: %v", got)
	}
}

// A lost answer must not lead to a second CVM of the name, nor to a missing one.
func TestPLT06_CreateSurvivesLostAnswers(t *testing.T) {
	for _, mode := range []platformtest.Mode{platformtest.ResetAfter, platformtest.ErrorAfter, platformtest.ResetBefore, platformtest.ErrorBefore, platformtest.Busy, platformtest.Throttle} {
		for _, path := range []string{"/cvms$", "/instances"} {
			t.Run(string(mode)+path, func(t *testing.T) {
				b := newBench(t)
				b.fake.Inject(platformtest.Fault{Method: "POST", Path: path, Mode: mode})
				_, _ = b.create(t)
				if got := b.names(t); !slices.Equal(got, three) {
					t.Errorf("CVMs = %v\n%s", got, strings.Join(b.said, "\n"))
				}
			})
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	b := newBench(t)
	_, _ = b.create(t)
	b.opts.Cluster.Trust.AllowSimulated = true
	if _, err := b.create(t); err == nil || !strings.Contains(err.Error(), "another trust block") {
		t.Errorf("changed trust: %v", err)
	}
	other := newBench(t)
	other.opts.Cloud = b.opts.Cloud
	if _, err := other.create(t); err == nil || !strings.Contains(err.Error(), `cluster name "demo": the account has CVM demo-coordinator-`) {
		t.Errorf("name taken by another cluster: %v", err)
	}
	if _, err := os.Stat(other.opts.ContextPath); err == nil {
		t.Error("a context was written for a refused name")
	}
	begun, err := client.LoadContext(b.opts.ContextPath)
	if err != nil {
		t.Fatal(err)
	}
	begun.CoordinatorAppID, begun.Trust.CoordinatorAppID = "another", "another"
	if err := begun.Save(other.opts.ContextPath); err != nil {
		t.Fatal(err)
	}
	if _, err := other.create(t); err == nil || !strings.Contains(err.Error(), "not in this cluster's app") {
		t.Errorf("name taken by another app: %v", err)
	}
	full := newBench(t)
	full.fake.Inject(platformtest.Fault{Method: "POST", Path: "/cvms$", Mode: platformtest.Refuse})
	if _, err := full.create(t); err == nil || !strings.Contains(err.Error(), "quota") {
		t.Errorf("quota: %v", err)
	}
}

// TestClustersOfOneAccountCannotGiveCVMsTheSameName: a CVM is called CLUSTER-SLOT, and names hold dashes.
func TestClustersOfOneAccountCannotGiveCVMsTheSameName(t *testing.T) {
	for _, c := range []struct {
		cvm, cluster string
		meets        bool
	}{
		{"a-b-coordinator-0", "a", true},
		{"a-coordinator-0", "a-b", true},
		{"a-b-c-0", "a", true},
		{"a-coordinator-0", "a", true},
		{"a-b-coordinator-0", "a-b-c", true},
		{"ab-coordinator-0", "a", false},
		{"a-coordinator-0", "ab", false},
		{"a-b-coordinator-0", "a-c", false},
		{"a-website", "a", false}, // no CVM of a Slot
		{"a-b-c-0", "a-b-d", false},
	} {
		if got := meets(c.cvm, c.cluster); got != c.meets {
			t.Errorf("CVM %s, new cluster %s: meets = %t, want %t", c.cvm, c.cluster, got, c.meets)
		}
	}
}
