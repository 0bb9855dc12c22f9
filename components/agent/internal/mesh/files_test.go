package mesh

import (
	"context"
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
