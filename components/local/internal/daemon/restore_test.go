package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cadre.dev/core/appcompose"
)

// release is an image that says its name when it starts.
func (s *shelf) release(name string) string {
	return s.add(name, v1.Config{Entrypoint: []string{"/bin/probe", "append", "/kept/log", name, "wait"}, Volumes: map[string]struct{}{"/anonymous": {}}})
}

// app is a compose file of one service, in the two forms of successive Revisions.
func app(image, restart string) string {
	return `
services:
  app:
    image: ` + image + `
    network_mode: host
    restart: "` + restart + `"
    volumes: [kept:/kept]
volumes: {kept: {}}
`
}

// started lists the programs that ran, from the volume, in order.
func (s *site) started(v obj) []string {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, "cvms", v["vm_uuid"].(string), "disk/volumes/kept/log"))
	if err != nil && !os.IsNotExist(err) { // the first one creates the file a moment after its start
		s.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// restored are the images of the containers that the engine started automatically, in order.
func (s *site) restored(v obj) (names []string) {
	s.Helper()
	for line := range strings.Lines(s.log(v, "cvm")) {
		if _, image, found := strings.Cut(line, ", image "); found && strings.Contains(line, " restored from container ") {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(image), "registry.example/team/"), ":")
			names = append(names, name)
		}
	}
	return names
}

// way is the road from the cloud to its registry. Pulls of a name that is blocked fail; pulls
// of a slow name wait until the name is free again.
type way struct {
	http.RoundTripper

	mu      sync.Mutex // guards the following
	blocked string
	slow    string
	free    chan struct{}
	asked   chan struct{} // gets a value for each pull that waits
}

func newWay() *way {
	return &way{RoundTripper: &http.Transport{DisableCompression: true}, asked: make(chan struct{}, 100)}
}

func (w *way) use(c *Config) { c.Pulls = w }

// set says which images are blocked and slow from now on; "" is none.
func (w *way) set(blocked, slow string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.free != nil {
		close(w.free)
	}
	w.blocked, w.slow, w.free = blocked, slow, make(chan struct{})
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	blocked, slow, free := w.blocked, w.slow, w.free
	w.mu.Unlock()
	named := func(name string) bool { return name != "" && strings.Contains(r.URL.Path, "/"+name+"/") }
	if named(slow) {
		w.asked <- struct{}{}
		select {
		case <-free:
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	if named(blocked) {
		return nil, errors.New("the host drops the connection")
	}
	return w.RoundTripper.RoundTrip(r)
}

// TestTheEngineRestoresContainersOfEarlierBoots shows a guest without an init script: the old
// container runs first in a CVM that measured the new compose file, and stays where the new image
// cannot be had.
func TestTheEngineRestoresContainersOfEarlierBoots(t *testing.T) {
	for _, c := range []struct {
		restart        string
		stopped, power bool // restored after a clean stop, after a power cut
	}{{"always", true, true}, {"unless-stopped", false, true}, {"on-failure", false, true}, {"no", false, false}} {
		t.Run(c.restart, func(t *testing.T) {
			shelf := newShelf(t)
			old, next, third := shelf.release("old"), shelf.release("next"), shelf.release("third")
			s := start(t, t.TempDir(), shelf.use)
			v := s.createWith("boot-0", app(old, c.restart), "")
			s.update("boot-0", app(next, c.restart), "")
			s.up("boot-0")
			var want []string
			if c.stopped {
				want = append(want, "old")
			}
			if got := s.restored(v); !slices.Equal(got, want) {
				t.Errorf("restored after an update: %v, want %v", got, want)
			}
			s.api(200, "POST", "/cvms/boot-0/stop", nil) // a power cut
			s.settled("boot-0")
			s.update("boot-0", app(third, c.restart), "")
			s.settled("boot-0")
			s.api(200, "POST", "/cvms/boot-0/start", nil)
			s.up("boot-0")
			if c.power {
				want = append(want, "next")
			}
			if got := s.restored(v); !slices.Equal(got, want) {
				t.Errorf("restored after a power cut: %v, want %v", got, want)
			}
			s.until("the third has started", func() bool { return slices.Contains(s.started(v), "third") })
			if got := s.engine(v, "containers"); len(got) != 1 {
				t.Errorf("containers: %v", got)
			}
		})
	}
	t.Run("an image that cannot be had", func(t *testing.T) {
		shelf, way := newShelf(t), newWay()
		old, next := shelf.release("old"), shelf.release("next")
		way.set("next", "")
		s := start(t, t.TempDir(), shelf.use, way.use)
		v := s.createWith("boot-0", app(old, "always"), "")
		s.until("the old one has started", func() bool { return slices.Equal(s.started(v), []string{"old"}) })
		s.update("boot-0", app(next, "always"), "")
		now := s.settled("boot-0")
		var text string
		s.until("the boot names the image", func() bool {
			text, _ = s.local(200, "GET", "/cvms/boot-0", nil)["boot_error"].(string)
			return text != ""
		})
		if !strings.Contains(text, next) || now["status"] != "running" || now["compose_hash"] == v["compose_hash"] {
			t.Errorf("%v with hash %v, boot error %q", now["status"], now["compose_hash"], text)
		}
		s.until("the old one runs under the new measurement", func() bool { return slices.Equal(s.started(v), []string{"old", "old"}) })
	})
	t.Run("an image that is slow to come", func(t *testing.T) {
		shelf, way := newShelf(t), newWay()
		old, next := shelf.release("old"), shelf.release("next")
		s := start(t, t.TempDir(), shelf.use, way.use)
		v := s.createWith("boot-0", app(old, "always"), "")
		s.until("the old one has started", func() bool { return slices.Equal(s.started(v), []string{"old"}) })
		way.set("", "next")
		s.update("boot-0", app(next, "always"), "")
		<-way.asked
		s.until("the old one runs meanwhile", func() bool { return slices.Equal(s.started(v), []string{"old", "old"}) })
		way.set("", "")
		s.until("the new one takes its place", func() bool { return slices.Contains(s.started(v), "next") })
	})
	t.Run("a volume without a name is handed on", func(t *testing.T) {
		shelf := newShelf(t)
		old, next := shelf.release("old"), shelf.release("next")
		s := start(t, t.TempDir(), shelf.use)
		s.createWith("boot-0", app(old, "unless-stopped"), "")
		if out, code := s.probed("boot-0", "app", "append", "/anonymous/x", "kept"); code != 0 {
			t.Fatal(out)
		}
		s.update("boot-0", app(next, "unless-stopped"), "")
		s.up("boot-0")
		if out, _ := s.probed("boot-0", "app", "cat", "/anonymous/x"); out != "kept" {
			t.Errorf("after an update: %q", out)
		}
		s.update("boot-0", app(old, "unless-stopped"), appcompose.InitScript)
		s.up("boot-0")
		if out, _ := s.probed("boot-0", "app", "ls", "/anonymous"); out != "" {
			t.Errorf("after the init script, which removes its container: %q", out)
		}
	})
	t.Run("other values of the env alone", func(t *testing.T) {
		shelf := newShelf(t)
		image := shelf.add("image", v1.Config{Entrypoint: []string{"/bin/probe", "append", "/kept/log"}, Cmd: []string{"x", "wait"}})
		compose := strings.Replace(app(image, "always"), "    volumes:", "    command: [\"${VALUE:-none}\", wait]\n    volumes:", 1)
		s := start(t, t.TempDir(), shelf.use)
		v := s.createWith("boot-0", compose, "")
		s.update("boot-0", strings.Replace(compose, "none", "other", 1), "")
		s.up("boot-0")
		s.until("it runs with the new value", func() bool { return slices.Contains(s.started(v), "other") })
		if got := s.restored(v); !slices.Equal(got, []string{"image"}) {
			t.Errorf("restored: %v", got)
		}
	})
	t.Run("a service that is gone", func(t *testing.T) {
		shelf := newShelf(t)
		old, next := shelf.release("old"), shelf.release("next")
		s := start(t, t.TempDir(), shelf.use)
		v := s.createWith("boot-0", app(old, "always"), "")
		s.until("the old one has started", func() bool { return slices.Equal(s.started(v), []string{"old"}) })
		s.update("boot-0", strings.Replace(app(next, "always"), "  app:", "  other:", 1), "")
		s.up("boot-0")
		s.until("the new one has started", func() bool { return slices.Contains(s.started(v), "next") })
		if got := s.started(v); !slices.Equal(got, []string{"old", "next"}) {
			t.Errorf("started: %v; the guest removes containers whose service is gone", got)
		}
	})
}

// engine lists the engine's folder on a CVM's data disk.
func (s *site) engine(v obj, below string) (names []string) {
	s.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "cvms", v["vm_uuid"].(string), "disk/docker", below))
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestATT36_NoContainerOutlivesABootWithTheInitScript is the same with Cadre's own documents.
func TestATT36_NoContainerOutlivesABootWithTheInitScript(t *testing.T) {
	shelf, way := newShelf(t), newWay()
	old, next := shelf.release("old"), shelf.release("next")
	s := start(t, t.TempDir(), shelf.use, way.use)
	v := s.create("boot-0", app(old, "always"))
	layer := s.engine(v, "overlay2")
	if len(s.engine(v, "containers")) != 1 || len(layer) != 4 { // image, writable, its init, l
		t.Fatalf("containers %v, layers %v", s.engine(v, "containers"), layer)
	}
	way.set("next", "")
	s.update("boot-0", app(next, "always"), appcompose.InitScript)
	now := s.settled("boot-0")
	var text string
	s.until("the boot names the image", func() bool {
		text, _ = s.local(200, "GET", "/cvms/boot-0", nil)["boot_error"].(string)
		return text != ""
	})
	if shown := s.settled("boot-0")["boot_error"]; shown != containersFailed || now["status"] != "running" || !strings.Contains(text, next) || !strings.Contains(text, "drops the connection") {
		t.Errorf("blocked: %v, boot error %q, in the guest %q", now["status"], shown, text)
	}
	if got := s.engine(v, "containers"); len(got) != 0 {
		t.Errorf("containers after the script: %v", got)
	}
	if got := s.engine(v, "overlay2"); len(got) != 2 || len(s.engine(v, "overlay2/l")) != 0 || len(s.engine(v, "image/overlay2/layerdb/mounts")) != 0 || len(s.engine(v, "image/overlay2/imagedb/content/sha256")) != 1 {
		t.Errorf("layers after the script: %v; the image's alone has to stay", got)
	}
	// A power cut in the middle of a slow pull, and another boot.
	way.set("", "next")
	s.api(200, "POST", "/cvms/boot-0/restart", obj{"force": true})
	<-way.asked
	pid := 0
	s.until("the guest runs", func() bool { pid, _ = s.findPID(v); return pid != 0 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if now := s.settled("boot-0"); now["status"] != "stopped" {
		t.Errorf("after a power cut: %v", now["status"])
	}
	way.set("", "")
	s.api(200, "POST", "/cvms/boot-0/start", nil)
	s.up("boot-0")
	s.until("the new one has started", func() bool { return slices.Contains(s.started(v), "next") })
	if got := s.started(v); slices.Contains(got[1:], "old") || len(s.restored(v)) != 0 {
		t.Errorf("started %v, restored %v", got, s.restored(v))
	}
	s.api(200, "POST", "/cvms/boot-0/restart", obj{"force": true})
	s.up("boot-0")
	if got := s.restored(v); len(got) != 0 {
		t.Errorf("restored after a power cut: %v", got)
	}
}

// TestAnInitScriptThatFailsEndsTheBoot as it does in a guest.
func TestAnInitScriptThatFailsEndsTheBoot(t *testing.T) {
	s := start(t, t.TempDir())
	p := s.api(200, "POST", "/cvms/provision", obj{"name": "boot-0", "compose_file": obj{"docker_compose_file": "services: {app: {image: test/shell, network_mode: host, command: [sleep, '1000']}}", "init_script": "cd /not/there\ntrue"}})
	s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	v := s.settled("boot-0")
	if text, _ := v["boot_error"].(string); v["status"] != "stopped" || !strings.Contains(text, "init_script ended with code 1") || !strings.Contains(text, "/not/there") {
		t.Errorf("%v, boot error %q", v["status"], text)
	}
}

// agents is a compose file like a group's: its one service acts like an agent before it asks for
// admission.
func agents(release string) string {
	const trust = `{"cluster":"demo"}`
	return `
services:
  cadre:
    image: test/helper
    network_mode: host
    restart: always
    environment: {RELEASE: "` + release + `"}
    command: [helper-measured, '` + trust + `', --revision-mark=` + appcompose.MarkPlace + `]
    volumes: ["/var/run/dstack.sock:/var/run/dstack.sock"]
configs: {trust: {content: '` + trust + `'}}
`
}

// document is the document that Cadre sends to a platform, edited.
func (s *site) document(compose string, edit func(obj)) obj {
	s.Helper()
	raw, err := appcompose.Render("app", compose, nil)
	if err != nil {
		s.Fatal(err)
	}
	out := obj{}
	if err := json.Unmarshal(raw, &out); err != nil {
		s.Fatal(err)
	}
	edit(out)
	return out
}

// TestATT36_ARestoredAgentDoesNotPassForTheNextRevision: the old agent makes the same requests
// before it attests, in the CVM that measured the next compose file, while the image of that file
// is missing.
func TestATT36_ARestoredAgentDoesNotPassForTheNextRevision(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(obj)
		restored bool
		says     string
	}{
		"as Cadre renders it": {func(obj) {}, false, " measured"},
		"without the script":  {func(d obj) { delete(d, "init_script") }, true, " refused: CONFIG_UNAUTHENTICATED"},
	} {
		t.Run(name, func(t *testing.T) {
			shelf, way := newShelf(t), newWay()
			old := agents("old")
			next := strings.Replace(agents("next"), "configs: {trust", "  slow: {image: "+shelf.release("slow")+", network_mode: host, volumes: [kept:/kept]}\nvolumes: {kept: {}}\nconfigs: {trust", 1)
			s := start(t, t.TempDir(), shelf.use, way.use)
			p := s.api(200, "POST", "/cvms/provision", obj{"name": "boot-0", "compose_file": s.document(old, c.edit)})
			s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
			v := s.up("boot-0")
			lines := func(n int) (said []string) {
				s.until("an agent has asked", func() bool {
					said = strings.Split(strings.TrimSpace(s.log(v, "cadre")), "\n")
					return len(said) >= n && said[0] != ""
				})
				return said
			}
			if got := lines(1); len(got) != 1 || !strings.HasPrefix(got[0], appcompose.Mark(old)+c.says) {
				t.Fatalf("the old one in its own CVM: %q", got)
			}
			way.set("", "slow")
			p = s.api(200, "POST", "/cvms/boot-0/compose_file/provision", s.document(next, c.edit))
			s.api(202, "PATCH", "/cvms/boot-0/compose_file", obj{"compose_hash": p["compose_hash"]})
			<-way.asked
			want := 2
			if c.restored {
				if got := lines(2); len(got) != 2 || !strings.HasPrefix(got[1], appcompose.Mark(old)+" refused: CONFIG_UNAUTHENTICATED") {
					t.Errorf("the old one under the next measurement: %q", got)
				}
				want = 3
			}
			way.set("", "")
			if got := lines(want); len(got) != want || !strings.HasPrefix(got[want-1], appcompose.Mark(next)+c.says) {
				t.Errorf("the new one: %q", got)
			}
			if got := s.restored(v); len(got) > 0 != c.restored {
				t.Errorf("restored: %v", got)
			}
		})
	}
}
