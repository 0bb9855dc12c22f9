package workloadfiles

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/secret"
	"cadre.dev/core/secret/secrettest"
)

func testInfo() Info {
	return Info{
		Cluster: "demo", Group: "db", Slot: "db-1", VIP: netip.MustParseAddr("127.50.1.2"),
		Members: []string{"db-0", "db-1", "db-2"},
		VIPs: map[string]netip.Addr{
			"db-0": netip.MustParseAddr("127.50.1.1"), "db-1": netip.MustParseAddr("127.50.1.2"),
		},
		Meta:        map[string]string{"fault-domain": "a; touch pwned", "quote": `it's "$HOME" ` + "`x`\nnext"},
		Secrets:     map[string]Secret{"password": {Value: secret.FromString("s3cret"), Epoch: 1}},
		ConsulToken: secret.FromString("token"),
	}
}

func TestAMissingProgramIsSaidAtTheStart(t *testing.T) {
	if _, err := Open(secrettest.MemoryDir(t), 0, "/no/such/program"); err == nil || !strings.Contains(err.Error(), "--exec-binary") {
		t.Errorf("err = %v", err)
	}
}

func TestExecWaitsForReadyAndLoadsEnvironment(t *testing.T) {
	dir := secrettest.MemoryDir(t)
	f, err := Open(dir, 0, agenttest.ExecProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	info := testInfo()
	if err := f.Write(info); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "exec"), "--", "sh", "-c",
		`test -e "$0/ready" && printf '%s|' "$CADRE_SLOT" "$CADRE_ORDINAL" "$CADRE_VIP" "$CADRE_MEMBERS" "$CADRE_MEMBER_VIPS" "$CONSUL_HTTP_ADDR" "$CADRE_META_FAULT_DOMAIN" "$CADRE_META_QUOTE"`, dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, os.Stderr, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := f.Ready(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	want := "db-1|1|127.50.1.2|db-0,db-1,db-2|127.50.1.1,127.50.1.2,|127.0.0.1:8500|" + info.Meta["fault-domain"] + "|" + info.Meta["quote"] + "|"
	if out.String() != want {
		t.Errorf("environment = %q, want %q", out.String(), want)
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("a meta value was run as a command")
	}
}

// TestRoutesStandBehindSlots: each Write adds and removes routes, and no route takes a Slot's name.
func TestRoutesStandBehindSlots(t *testing.T) {
	dir := secrettest.MemoryDir(t)
	f, err := Open(dir, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	vip := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 10, 0, n}) }
	const slots = "127.0.0.1 localhost\n127.50.1.1 db-0\n127.50.1.2 db-1\n"
	for _, step := range []struct {
		routes      map[string]netip.Addr
		hosts, list string
	}{
		{nil, slots, ""},
		{map[string]netip.Addr{"worker": vip(2), "db-master": vip(1)}, slots + "127.10.0.1 db-master\n127.10.0.2 worker\n", "db-master,worker"},
		// db-2 is a member whose address is not known yet.
		{map[string]netip.Addr{"db-0": vip(3), "db-1": vip(4), "db-2": vip(5), "localhost": vip(6), "worker": vip(2)}, slots + "127.10.0.2 worker\n", "worker"},
		{map[string]netip.Addr{}, slots, ""},
	} {
		info := testInfo()
		info.Routes = step.routes
		if err := f.Write(info); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dir, "hosts"); got != step.hosts {
			t.Errorf("%v: hosts\n%swant\n%s", step.routes, got, step.hosts)
		}
		if got := read(t, dir, "env"); !strings.Contains(got, "CADRE_ROUTES='"+step.list+"'\n") {
			t.Errorf("%v: environment\n%s", step.routes, got)
		}
	}
}

// TestTheScriptBecomesTheProgram, in each installed shell, with every argument unchanged, and by
// any path.
func TestTheScriptBecomesTheProgram(t *testing.T) {
	dir := secrettest.MemoryDir(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s|' \"$0\" \"$@\"\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 0, program); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "exec.sh")
	words := []string{"--", "two words", "", "$HOME", "*"}
	const said = "|--|two words||$HOME|*|"
	starts := [][]string{{path}, {"exec.sh"}}
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err == nil {
			starts = append(starts, append(shell, path), append(shell, "exec.sh"))
		}
	}
	for _, start := range starts {
		cmd := exec.CommandContext(t.Context(), start[0], append(start[1:], words...)...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin"}
		if start[0] == "exec.sh" {
			cmd = exec.CommandContext(t.Context(), "sh", append([]string{"-c", `exec exec.sh "$@"`, "x"}, words...)...)
			cmd.Dir, cmd.Env = "/", []string{"PATH=" + dir + ":/usr/bin:/bin"}
		}
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 9 || !strings.HasSuffix(string(out), "/exec"+said) {
			t.Errorf("%q: %q, %v", start, out, err)
		}
	}
	if shellcheck, err := exec.LookPath("shellcheck"); err == nil {
		if out, err := exec.CommandContext(t.Context(), shellcheck, path).CombinedOutput(); err != nil {
			t.Errorf("shellcheck: %s", out)
		}
	}
}

func TestOpenRemovesAnEarlierReady(t *testing.T) {
	dir := secrettest.MemoryDir(t)
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 0, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
		t.Error("the ready file of an earlier boot is still there")
	}
}

func TestSecrets(t *testing.T) {
	for name, tc := range map[string]struct {
		secret string
		gid    int
		mode   os.FileMode
		err    string
	}{
		"root only":        {secret: "password", mode: 0o400},
		"with a group":     {secret: "password", gid: os.Getgid(), mode: 0o440},
		"path traversal":   {secret: "../env", err: "must match"},
		"hidden file":      {secret: ".x", err: "must match"},
		"absolute":         {secret: "/etc/passwd", err: "must match"},
		"empty":            {secret: "", err: "must match"},
		"newline in name":  {secret: "a\nb", err: "must match"},
		"dots inside pass": {secret: "a..b", mode: 0o400},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.gid == 0 && name == "with a group" {
				tc.gid = 1
			}
			if name == "with a group" && os.Getuid() != 0 {
				t.Skip("needs root to give a file to another group")
			}
			dir := secrettest.MemoryDir(t)
			f, err := Open(dir, tc.gid, "")
			if err != nil {
				t.Fatal(err)
			}
			info := testInfo()
			info.Secrets = map[string]Secret{tc.secret: {Value: secret.FromString("v"), Epoch: 1}}
			err = f.Write(info)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("write = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(filepath.Join(dir, "secrets", tc.secret))
			if err != nil || st.Mode().Perm() != tc.mode {
				t.Errorf("mode = %v, %v; want %v", st.Mode(), err, tc.mode)
			}
		})
	}
}
