package command

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/client"
)

// A cloud that had to take other ports corrects the contexts of its own clusters only.
func TestContextsFollowTheirCloud(t *testing.T) {
	b := newBench(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir, err := client.Dir()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	ours.Gateway.Address = "127.0.0.1:1001"
	ours.Platform = client.Platform{Driver: "phala", APIURL: "http://127.0.0.1:1002/api/v1", APIKey: "phak_ours"}
	theirs := ours
	theirs.Platform.APIKey = "phak_theirs"
	paths := map[string]client.Context{b.context: ours, filepath.Join(dir, "ours.json"): ours, filepath.Join(dir, "theirs.json"): theirs}
	for path, c := range paths {
		if err := c.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	info := localcloud.Info{APIURL: "http://127.0.0.1:2002/api/v1", APIKey: "phak_ours", GatewayAddress: "127.0.0.1:2001"}
	got, err := (&App{}).readdress(info)
	if want := []string{b.context, filepath.Join(dir, "ours.json")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("changed %v, %v; want %v", got, err, want)
	}
	for path, was := range paths {
		now, err := client.LoadContext(path)
		if err != nil {
			t.Fatal(err)
		}
		want := was
		if was.Platform.APIKey == info.APIKey {
			want.Gateway.Address, want.Platform.APIURL = info.GatewayAddress, info.APIURL
		}
		if now.Gateway != want.Gateway || now.Platform != want.Platform {
			t.Errorf("%s: %+v %+v, want %+v %+v", path, now.Gateway, now.Platform, want.Gateway, want.Platform)
		}
	}
	if got, err := (&App{}).readdress(info); err != nil || len(got) > 0 {
		t.Errorf("changed %v, %v again", got, err)
	}
}

// The printed command undoes a cut connection, on any cloud.
func TestThePrintedCommandEndsACut(t *testing.T) {
	t.Setenv("CADRE_LOCAL_STATE", t.TempDir())
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	if err := os.WriteFile(localcloud.CloudFile(dir), []byte(`{"api_url": "`+api.URL+`/api/v1", "api_key": "key"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run(t, "local", "fault", "isolate", "demo-web-1", "--state", dir); code != ExitOK || !strings.Contains(out, "`cadre local fault rejoin demo-web-1 --state "+dir+"`") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// A CVM is deleted by its name, and an unknown name deletes none.
func TestACVMIsDeletedByItsName(t *testing.T) {
	deleted := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted = r.URL.Path
			return
		}
		_, _ = w.Write([]byte(`[{"name": "demo-web-1", "vm_uuid": "0a"}]`))
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	t.Setenv("CADRE_LOCAL_STATE", dir)
	if err := os.WriteFile(localcloud.CloudFile(dir), []byte(`{"api_url": "`+api.URL+`/api/v1", "local_url": "`+api.URL+`/_local", "api_key": "key"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run(t, "local", "delete", "web-1"); code != ExitNotFound || deleted != "" {
		t.Errorf("of another name: exit %d, deleted %q\n%s", code, deleted, out)
	}
	if code, out := run(t, "local", "delete", "demo-web-1"); code != ExitOK || deleted != "/api/v1/cvms/0a" {
		t.Errorf("exit %d, deleted %q\n%s", code, deleted, out)
	}
}

// A host takes its verb by the call that the daemon has for it.
func TestAHostFailsAndComesBack(t *testing.T) {
	var calls []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls = append(calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	t.Setenv("CADRE_LOCAL_STATE", dir)
	if err := os.WriteFile(localcloud.CloudFile(dir), []byte(`{"platform": "vmm", "api_url": "vmm:host-a=http://127.0.0.1:1", "local_url": "`+api.URL+`/_local", "api_key": "key"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"kill"}, {"return"}, {"hang", "--for", "1m"}, {"up"}} {
		if code, out := run(t, slices.Concat([]string{"local", "fault", "host", "host-a"}, args)...); code != ExitOK {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
	}
	want := []string{"POST /_local/hosts/host-a/kill", "POST /_local/hosts/host-a/return",
		`PUT /_local/hosts/host-a {"endpoint":"hang","for":"1m0s"}`, `PUT /_local/hosts/host-a {"endpoint":"up","for":"0s"}`}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q", calls)
	}
	for _, args := range [][]string{{"burn"}, {"kill", "--for", "1m"}, {"hang", "--for", "-1s"}} {
		if code, out := run(t, slices.Concat([]string{"local", "fault", "host", "host-a"}, args)...); code != ExitUsage {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
	}
}

// A CVM of a host is started through the driver of hosts, under the name that one CVM alone has.
func TestACVMOfAHostIsStartedByItsName(t *testing.T) {
	started := ""
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/prpc/StartVm":
			started += "x"
			_, _ = w.Write([]byte("null"))
		case strings.HasPrefix(path, "/_local/"):
			_, _ = w.Write([]byte(`[{"name": "web-1", "vm_uuid": "0a000000-0000-4000-8000-000000000000", "host": "host-a"}, {"name": "twin", "vm_uuid": "0b"}, {"name": "twin", "vm_uuid": "0c"}]`))
		default:
			_, _ = w.Write([]byte(`{"found": true, "info": {"id": "0a000000-0000-4000-8000-000000000000", "name": "web-1", "status": "stopped"}}`))
		}
	}))
	t.Cleanup(host.Close)
	dir := t.TempDir()
	t.Setenv("CADRE_LOCAL_STATE", dir)
	if err := os.WriteFile(localcloud.CloudFile(dir), []byte(`{"platform": "vmm", "api_url": "vmm:host-a=`+host.URL+`", "local_url": "`+host.URL+`/_local", "api_key": "key"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run(t, "local", "start", "twin"); code == ExitOK || !strings.Contains(out, "2 CVMs have that name") {
		t.Errorf("a name of two: exit %d\n%s", code, out)
	}
	if code, out := run(t, "local", "start", "web-1"); code != ExitOK || started != "x" {
		t.Errorf("exit %d, started %q\n%s", code, started, out)
	}
}
