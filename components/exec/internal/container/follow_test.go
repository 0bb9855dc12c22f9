package container

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// hostsSay waits until the container's hosts file is want.
func (r *rig) hostsSay(want string) {
	r.t.Helper()
	r.await("hosts "+want, func() bool {
		got, err := os.ReadFile(r.hosts)
		return err == nil && string(got) == want
	})
}

// TestARouteComesAndGoesWhileTheWorkloadRuns: and nothing is started again for it.
func TestARouteComesAndGoesWhileTheWorkloadRuns(t *testing.T) {
	r := newRig(t)
	r.hosts = filepath.Join(r.dir, "etc-hosts")
	r.write("etc-hosts", "127.0.0.1 localhost\n")
	r.ready()
	r.start(`trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done`)
	r.hostsSay("127.0.0.1 localhost\n127.50.0.1 web-0 # cadre\n")
	r.await("the workload", func() bool { stdout, _ := r.said(); return stdout == "up\n" })
	r.replace("mesh/hosts", "127.0.0.1 localhost\n127.50.0.1 web-0\n127.10.0.1 db-master\n")
	r.hostsSay("127.0.0.1 localhost\n127.50.0.1 web-0 # cadre\n127.10.0.1 db-master # cadre\n")
	r.replace("mesh/hosts", "127.0.0.1 localhost\n127.50.0.1 web-0\n")
	r.hostsSay("127.0.0.1 localhost\n127.50.0.1 web-0 # cadre\n#27.10.0.1 db-master # cadre\n")
	if err := os.Remove(filepath.Join(r.mesh, "hosts")); err != nil {
		t.Fatal(err)
	}
	r.replace("mesh/other", "")
	r.await("a word about names that are not there", func() bool { _, stderr := r.said(); return strings.Contains(stderr, "no such file") })
	r.replace("mesh/hosts", "127.10.0.1 db-master\n")
	r.hostsSay("127.0.0.1 localhost\n#27.50.0.1 web-0 # cadre\n127.10.0.1 db-master # cadre\n")
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code := r.wait()
	if stdout, _ := r.said(); code != 9 || stdout != "up\n" {
		t.Errorf("code %d, output %q: the workload was started again", code, stdout)
	}
}

func TestNoWatchLeftMeansNoChannel(t *testing.T) {
	if watch(filepath.Join(t.TempDir(), "none")) != nil {
		t.Error("a folder that is not there is watched")
	}
}

// TestAReadOnlyHostsFileIsLoggedOnce: and the workload runs.
func TestAReadOnlyHostsFileIsLoggedOnce(t *testing.T) {
	r := newRig(t)
	r.hosts = filepath.Join(r.dir, "etc-hosts")
	r.write("etc-hosts", "127.0.0.1 localhost\n")
	r.ready()
	r.share()
	if err := os.Chmod(r.hosts, 0o444); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		r.as = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Remove(r.commands); err != nil {
			t.Fatal(err)
		}
	}
	r.start(`echo up; exec sleep 600`)
	r.await("the workload", func() bool { stdout, _ := r.said(); return stdout == "up\n" })
	r.replace("mesh/other", "1")
	r.replace("mesh/other", "2")
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.wait()
	_, stderr := r.said()
	if strings.Count(stderr, "lacks names of Peers and routes") != 1 || !strings.Contains(stderr, "permission denied") || !strings.Contains(stderr, "with --user before --") {
		t.Errorf("it says %q", stderr)
	}
	if got, err := os.ReadFile(r.hosts); err != nil || string(got) != "127.0.0.1 localhost\n" {
		t.Errorf("hosts %q, %v", got, err)
	}
}
