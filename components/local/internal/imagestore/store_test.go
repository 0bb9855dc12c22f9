package imagestore

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"cadre.dev/local/internal/imagetest"
	"cadre.dev/local/internal/registry"
	"cadre.dev/local/internal/rootfs"
)

// site is a layout, its registry and a store.
type site struct {
	layout, dir, host string
	pulls             atomic.Int64
	// spoil changes an answer of the registry before it is sent.
	spoil func(path string, body []byte) []byte
	// kinds are the content types of manifests that it sends, by digest.
	kinds map[string]string
}

func newSite(t *testing.T) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: unpacking images needs root, for their owners")
	}
	s := &site{layout: filepath.Join(t.TempDir(), "layout"), dir: filepath.Join(t.TempDir(), "store")}
	inner := registry.New(s.layout, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			s.pulls.Add(1)
		}
		if s.spoil == nil {
			inner.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		body := s.spoil(r.URL.Path, rec.Body.Bytes())
		for _, key := range []string{"Content-Type", "Docker-Content-Digest"} {
			w.Header().Set(key, rec.Header().Get(key))
		}
		if kind := s.kinds[path.Base(r.URL.Path)]; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *site) store(t *testing.T, change ...func(*Config)) *Store {
	t.Helper()
	c := Config{Dir: s.dir, Registry: s.host, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	out, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

// empty fails unless the store holds nothing at all.
func (s *site) empty(t *testing.T) {
	t.Helper()
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 0 {
		t.Errorf("the store holds %v, %v", entries, err)
	}
}

func small(t *testing.T, word string) v1.Image {
	t.Helper()
	config := v1.Config{
		Env: []string{"A=b=c", "EMPTY="}, Entrypoint: []string{"/bin/app"}, Cmd: []string{"run"}, User: "app", WorkingDir: "/srv", StopSignal: "SIGINT",
		Volumes: map[string]struct{}{"/data/": {}}, Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "check"}, Interval: time.Second, Retries: 7},
	}
	return imagetest.Image(t, config,
		imagetest.Archive(t, imagetest.File("bin/app", 0o755, word), imagetest.File("old", 0o644, "old")),
		imagetest.Archive(t, imagetest.File(".wh.old", 0, ""), imagetest.File("new", 0o644, word)),
	)
}

func TestAnImageIsUnpackedOnceForAll(t *testing.T) {
	s := newSite(t)
	digest := imagetest.Add(t, s.layout, "cadre-app:1", small(t, "hello"))
	store := s.store(t)
	var all sync.WaitGroup
	for _, ref := range []string{
		s.host + "/cadre-app:1@" + digest, "cadre-app@" + digest, "docker.io/library/cadre-app@" + digest, "registry.example:5000/team/x/cadre-app:2@" + digest,
	} {
		for range 3 {
			all.Go(func() {
				img, err := store.Ensure(t.Context(), ref)
				if err != nil {
					t.Errorf("%s: %v", ref, err)
					return
				}
				for name, want := range map[string]string{"bin/app": "hello", "new": "hello", "old": ""} {
					if raw, _ := os.ReadFile(filepath.Join(img.Root, name)); string(raw) != want {
						t.Errorf("%s: %s = %q, want %q", ref, name, raw, want)
					}
				}
				got := fmt.Sprintf("%q %q %s %s %s %q %v %+v", img.Entrypoint, img.Command, img.User, img.WorkingDir, img.StopSignal, img.Volumes, img.Env, *img.Health)
				want := `["/bin/app"] ["run"] app /srv SIGINT ["/data"] map[A:b=c EMPTY:] {Test:[CMD check] Interval:1s Timeout:0s StartPeriod:0s Retries:7}`
				if got != want {
					t.Errorf("config\n got %s\nwant %s", got, want)
				}
			})
		}
	}
	all.Wait()
	before := s.pulls.Load()
	store.Close()
	if _, err := os.Stat(filepath.Join(s.dir, strings.TrimPrefix(digest, "sha256:"), flushedFile)); err != nil {
		t.Error(err)
	}
	again, err := s.store(t).Ensure(t.Context(), "cadre-app@"+digest)
	if err != nil || s.pulls.Load() != before || filepath.Base(filepath.Dir(again.Root)) != strings.TrimPrefix(digest, "sha256:") {
		t.Errorf("a second store: %+v, %v, %d pulls more", again, err, s.pulls.Load()-before)
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("the store holds %v, %v", entries, err)
	}
}

// TestAPowerCutLeavesNoHalfImage: parts that were not on the disk at the power cut are pulled
// again.
func TestAPowerCutLeavesNoHalfImage(t *testing.T) {
	s := newSite(t)
	ref := "cadre-app@" + imagetest.Add(t, s.layout, "cadre-app:1", small(t, "hello"))
	store := s.store(t)
	img, err := store.Ensure(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	app := filepath.Join(img.Root, "bin/app")
	if err := os.Truncate(app, 0); err != nil {
		t.Fatal(err)
	}
	after := s.store(t)
	after.boot = "the next"
	if _, err := after.Ensure(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(app); err != nil || len(raw) > 0 {
		t.Errorf("an image that was flushed is pulled again: %q, %v", raw, err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(img.Root), flushedFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := after.Ensure(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(app); err != nil || string(raw) != "hello" {
		t.Errorf("an image that was not flushed: %q, %v", raw, err)
	}
}

func TestAnImageThatIsBuiltLaterCanBePulled(t *testing.T) {
	s := newSite(t)
	store := s.store(t)
	img := small(t, "later")
	digest, _ := img.Digest()
	if _, err := store.Ensure(t.Context(), "cadre-app@"+digest.String()); err == nil || !strings.Contains(err.Error(), "no image of that digest") {
		t.Errorf("before it is built: %v", err)
	}
	imagetest.Add(t, s.layout, "cadre-app:1", img)
	if _, err := store.Ensure(t.Context(), "cadre-app@"+digest.String()); err != nil {
		t.Error(err)
	}
}

// TestContentWithAnotherDigestIsRefused, wherever it was changed, and leaves nothing.
func TestContentWithAnotherDigestIsRefused(t *testing.T) {
	zipped := func(raw []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	evil := imagetest.Archive(t, imagetest.File("bin/app", 0o755, "evil"))
	layerOf := func(img v1.Image, n int) string {
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layers[n].Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest.Hex
	}
	for name, c := range map[string]struct {
		// change is done to the layout; spoil to the registry's answers.
		change func(t *testing.T, s *site, img v1.Image)
		spoil  func(img v1.Image) func(string, []byte) []byte
		want   string
	}{
		"a swapped layer in the layout": {
			change: func(t *testing.T, s *site, img v1.Image) {
				if err := os.WriteFile(filepath.Join(s.layout, "blobs/sha256", layerOf(img, 1)), zipped(evil), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: "layer 2: ",
		},
		"a swapped config in the layout": {
			change: func(t *testing.T, s *site, img v1.Image) {
				name, err := img.ConfigName()
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(s.layout, "blobs/sha256", name.Hex)
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, bytes.Replace(raw, []byte(`"User":"app"`), []byte(`"User":"rot"`), 1), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: "pull config",
		},
		"a swapped manifest in the layout": {
			change: func(t *testing.T, s *site, img v1.Image) {
				digest, err := img.Digest()
				if err != nil {
					t.Fatal(err)
				}
				raw, err := small(t, "evil").RawManifest()
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(s.layout, "blobs/sha256", digest.Hex), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: "no image of that digest", // the registry leaves it out
		},
		"another manifest as answer": {
			spoil: func(v1.Image) func(string, []byte) []byte {
				raw, err := small(t, "evil").RawManifest()
				if err != nil {
					t.Fatal(err)
				}
				return func(path string, body []byte) []byte {
					if strings.Contains(path, "/manifests/") {
						return raw
					}
					return body
				}
			},
			want: "digest",
		},
		"another layer as answer": {
			spoil: func(img v1.Image) func(string, []byte) []byte {
				return func(path string, body []byte) []byte {
					if strings.HasSuffix(path, layerOf(img, 0)) {
						return zipped(evil)
					}
					return body
				}
			},
			want: "layer 1: ",
		},
		"a layer that is cut": {
			spoil: func(img v1.Image) func(string, []byte) []byte {
				return func(path string, body []byte) []byte {
					if strings.HasSuffix(path, layerOf(img, 0)) {
						return body[:len(body)-10]
					}
					return body
				}
			},
			want: "layer 1: ",
		},
		"an answer without end": {
			spoil: func(v1.Image) func(string, []byte) []byte {
				return func(path string, body []byte) []byte {
					if strings.Contains(path, "/manifests/") {
						return bytes.Repeat([]byte(" "), maxManifest+2)
					}
					return body
				}
			},
			want: "larger than",
		},
		"an answer that is none": {
			spoil: func(v1.Image) func(string, []byte) []byte {
				return func(path string, body []byte) []byte {
					if strings.Contains(path, "/manifests/") {
						return []byte("<html>")
					}
					return body
				}
			},
			want: "digest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			img := small(t, "hello")
			digest := imagetest.Add(t, s.layout, "cadre-app:1", img)
			if c.change != nil {
				c.change(t, s, img)
			}
			if c.spoil != nil {
				s.spoil = c.spoil(img)
			}
			ref := "cadre-app@" + digest
			got, err := s.store(t).Ensure(t.Context(), ref)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ref) {
				t.Errorf("got %+v, %v, want %q", got, err, c.want)
			}
			s.empty(t)
		})
	}
}

// TestALayerThatTheConfigDoesNotName: a manifest can list a layer by its right digest and
// yet another content than the config promises.
func TestALayerThatTheConfigDoesNotName(t *testing.T) {
	s := newSite(t)
	img := small(t, "hello")
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	lying := config.DeepCopy()
	lying.RootFS.DiffIDs[1] = lying.RootFS.DiffIDs[0]
	other, err := mutate.ConfigFile(img, lying)
	if err != nil {
		t.Fatal(err)
	}
	digest := imagetest.Add(t, s.layout, "cadre-app:1", other)
	if _, err := s.store(t).Ensure(t.Context(), "cadre-app@"+digest); err == nil || !strings.Contains(err.Error(), "layer 2: ") {
		t.Errorf("err = %v", err)
	}
	s.empty(t)
}

func TestReferencesAndImagesThatAreRefused(t *testing.T) {
	s := newSite(t)
	foreign, err := mutate.ConfigFile(small(t, "x"), &v1.ConfigFile{OS: "linux", Architecture: "s390x", RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	ref := func(name string, img v1.Image) string { return name + "@" + imagetest.Add(t, s.layout, name+":1", img) }
	layer := imagetest.Archive(t, imagetest.File("../x", 0o644, "x"))
	link := imagetest.Archive(t, imagetest.File(".cadre-become", 0o755, "mine"))
	large := imagetest.Archive(t, imagetest.File("x", 0o644, strings.Repeat("x", 5000)))
	many := make([][]byte, maxLayers+1)
	crowd := map[string]struct{}{}
	for i := range maxVolumes + 1 {
		crowd[fmt.Sprintf("/v/%d", i)] = struct{}{}
	}
	for i := range many {
		many[i] = imagetest.Archive(t, imagetest.File(fmt.Sprint(i), 0o644, ""))
	}
	store := s.store(t, func(c *Config) { c.Limits = rootfs.Limits{Bytes: 4096, Entries: 100} })
	for reference, want := range map[string]string{
		"cadre-app":   "pin it",
		"cadre-app:1": "pin it",
		"cadre-app@":  "cadre-app@",
		"Upper@sha256:" + strings.Repeat("0", 64):                                                          "Upper",
		"cadre-app@sha256:" + strings.Repeat("0", 64):                                                      "make images",
		ref("foreign", foreign):                                                                            "linux/s390x",
		ref("hostile", imagetest.Image(t, v1.Config{}, layer)):                                             "out of the image",
		ref("large", imagetest.Image(t, v1.Config{}, large)):                                               "too large",
		ref("layers", imagetest.Image(t, v1.Config{}, many...)):                                            "129 layers",
		ref("volume", imagetest.Image(t, v1.Config{Volumes: map[string]struct{}{"/../": {}}})):             "its volume",
		ref("volumes", imagetest.Image(t, v1.Config{Volumes: crowd})):                                      "65 volumes",
		ref("hidden", imagetest.Image(t, v1.Config{Volumes: map[string]struct{}{"//.cadre-become/": {}}})): "a program of its own",
		ref("workdir", imagetest.Image(t, v1.Config{WorkingDir: "rel"})):                                   "working directory",
		ref("zero", imagetest.Image(t, v1.Config{WorkingDir: "/a\x00--bind\x00/\x00/mnt"})):                "working directory",
		ref("become", imagetest.Image(t, v1.Config{}, link)):                                               "/.cadre-become",
	} {
		if got, err := store.Ensure(t.Context(), reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", reference, got, err, want)
		}
	}
	s.empty(t)
	if _, err := s.store(t, func(c *Config) { c.Registry = "" }).Ensure(t.Context(), "cadre-app@sha256:"+strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "--layout") {
		t.Errorf("without a registry: %v", err)
	}
}

func TestTheRegistryTakesNothing(t *testing.T) {
	s := newSite(t)
	imagetest.Add(t, s.layout, "team/app:1.2", small(t, "x"))
	for path, want := range map[string]int{"/v2/": 200, "/v2/team/app/manifests/1.2": 200, "/v2/team/app/manifests/9": 404, "/v2/_catalog": 200, "/v2/team/app/tags/list": 200} {
		resp, err := http.Get("http://" + s.host + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, resp.StatusCode, want)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.host+"/v2/team/app/manifests/1.2", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(string(text), "UNSUPPORTED") {
			t.Errorf("%s: %d %s", method, resp.StatusCode, text)
		}
	}
}
