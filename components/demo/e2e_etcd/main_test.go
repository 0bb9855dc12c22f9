package e2e_etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
)

// deployed is the local cloud with the etcd example on it that the tests share, one after the
// other. After a test that failed the next one has another.
var deployed *cluster

// cluster is a local cloud with the etcd example.
type cluster struct {
	*rig.Rig
	dir string
	log *os.File
	// releases counts the releases of the etcd group that were applied.
	releases int
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := deployed.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// needs skips where the real thing cannot run, and returns the checkout's root.
func needs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cloud, three coordinators and three etcd members")
	}
	return rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-load"})
}

func newCluster(root string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "e2e-etcd-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "cadre.log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r := rig.New(root, filepath.Join(dir, "state"), time.Second, log)
	r.Net = rig.DefaultNet
	return &cluster{Rig: r, dir: dir, log: log, releases: 1}, nil // as DeployEtcd names the first
}

// remove takes the cloud down; nil has none.
func (c *cluster) remove() error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(c.Down(ctx), c.log.Close(), os.RemoveAll(c.dir)); err != nil {
		return fmt.Errorf("take the cloud down: %w", err)
	}
	return nil
}

// next names a release that was not there yet.
func (c *cluster) next() string {
	c.releases++
	return c.release()
}

// release is the group's release.
func (c *cluster) release() string { return strconv.Itoa(c.releases) }

// story is one test of the cluster.
type story struct {
	*testing.T
	*cluster
	n *rig.Narrator
}

// begin gives the cluster with all members in service, and clients that begin a history of
// their own: their writes are steady.
func begin(ctx context.Context, t *testing.T) *story {
	t.Helper()
	root := needs(t)
	fresh := deployed == nil
	if fresh {
		c, err := newCluster(root)
		if err != nil {
			t.Fatal(err)
		}
		deployed = c
	}
	s := &story{T: t, cluster: deployed, n: rig.NewNarrator(t.Output(), false, time.Now())}
	t.Cleanup(s.end)
	if fresh {
		s.must("deploy etcd", s.DeployEtcd(ctx, s.n))
		return s
	}
	s.n.Say("restarting the clients' CVM: their history has been checked")
	_, err := s.Cadre(ctx, "instance", "restart", rig.EtcdApp+"-0", "--reason", "another test begins", "--wait", "--timeout", "1m")
	s.must("restart the clients", err)
	s.must("wait for steady writes", s.AwaitRegisterWrites(ctx, time.Now(), 200))
	return s
}

// end shows the remains of a failed test, and hides them from the next test.
func (s *story) end() {
	if !s.Failed() {
		return
	}
	dump(s.T, s.log.Name())
	services, _ := filepath.Glob(filepath.Join(s.State, "cloud/cvms/*/logs/[el]*.log")) // etcd, load
	for _, path := range services {
		dump(s.T, path)
	}
	deployed = nil
	if err := s.remove(); err != nil {
		s.Error(err)
	}
}

// dump shows the end of a log.
func dump(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("%s:\n%s", path, data[max(0, len(data)-3000):])
}

func (s *story) must(doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}
