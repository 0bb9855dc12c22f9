package container

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTheWorkloadIsAnotherUser: with its commands, while init, as root, keeps the names.
func TestTheWorkloadIsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root to become another user")
	}
	r := newRig(t)
	r.hosts = filepath.Join(r.dir, "etc-hosts")
	r.write("etc-hosts", "127.0.0.1 localhost\n")
	r.ready()
	r.share()
	if err := os.Chown(r.commands, 12345, 0); err != nil {
		t.Fatal(err)
	}
	r.user = "12345:23456"
	r.as = &syscall.Credential{Groups: []uint32{0, 34567}} // the latter by group_add
	const who = `echo $(id -u) $(id -g) $(id -G) $HOME; grep CapEff /proc/self/status`
	t.Setenv("HOME", "/root")
	r.start(who + `; echo more >> "` + r.hosts + `"; exec sleep 600`)
	const want = "12345 23456 23456 34567 /\nCapEff:\t0000000000000000\n"
	r.await("the workload", func() bool { stdout, _ := r.said(); return stdout == want })
	r.replace("mesh/hosts", "127.10.0.1 db-master\n")
	r.hostsSay("127.0.0.1 localhost\n#27.50.0.1 web-0 # cadre\n127.10.0.1 db-master # cadre\n")
	reply, err := r.do(t.Context(), soon, who)
	if err != nil || string(reply.Output) != want {
		t.Errorf("a command: %q, %v", reply.Output, err)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(); code != 143 {
		t.Errorf("code %d", code)
	}
}

func TestAUserIsThatOfTheImage(t *testing.T) {
	a, err := accountOf("nobody")
	if err != nil || a.uid == 0 || a.gid == 0 || a.home == "" {
		t.Errorf("user nobody is %+v, %v", a, err)
	}
	if b, err := accountOf("nobody:0"); err != nil || b.uid != a.uid || b.gid != 0 {
		t.Errorf("user nobody of group 0 is %+v, %v", b, err)
	}
	for text, want := range map[string]string{
		"root": "is root", "0:5": "is root", "54321": "as in --user=70:70", "no-such-user": "as in --user=70:70",
		"4294967295:1": "--user=4294967295:1", "-1:1": "--user=-1:1", ":": "--user=:", "nobody:no-such-group": "no-such-group", "nobody:": "--user=nobody:",
	} {
		if a, err := accountOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v; want %q", text, a, err, want)
		}
	}
}

func TestOnlyRootChangesTheUser(t *testing.T) {
	r := newRig(t)
	r.user = "12345:23456"
	r.ready()
	r.share()
	if os.Getuid() == 0 {
		r.as = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	r.start("true")
	code := r.wait()
	if _, stderr := r.said(); code != exitFailed || !strings.Contains(stderr, "start the service as root") {
		t.Errorf("code %d: %s", code, stderr)
	}
}
