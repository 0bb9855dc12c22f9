package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	refName      = "org.opencontainers.image.ref.name"
	maxManifest  = 4 << 20
	maxManifests = 1000
	maxNested    = 2
)

// Image is an image that can be pulled.
type Image struct {
	// Name and Tag come from the annotation; Digest is "sha256:...".
	Name   string `json:"name"`
	Tag    string `json:"tag"`
	Digest string `json:"digest"`
}

// Registry is an http.Handler. Safe for concurrent use.
type Registry struct {
	layout string
	log    *slog.Logger

	mu      sync.Mutex // guards the following
	seen    stamp
	images  []Image
	handler http.Handler
}

// stamp identifies a version of the index.
type stamp struct {
	at   time.Time
	size int64
}

// New serves the layout folder, which need not be there yet.
func New(layout string, log *slog.Logger) *Registry {
	return &Registry{layout: layout, log: log, handler: empty(layout)}
}

func empty(layout string) http.Handler {
	return registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(filepath.Join(layout, "blobs"))),
		registry.Logger(log.New(io.Discard, "", 0)),
	)
}

// ServeHTTP answers pulls.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNSUPPORTED","message":"this registry serves a layout folder; add images there"}]}`)
		return
	}
	handler, _ := r.current()
	handler.ServeHTTP(w, req)
}

// Images lists the images of the index that can be pulled.
func (r *Registry) Images() []Image {
	_, images := r.current()
	return images
}

// current reads the index again if it has changed.
func (r *Registry) current() (http.Handler, []Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(filepath.Join(r.layout, "index.json"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.log.Warn("image layout not read", "error", err)
		}
		return r.handler, r.images
	}
	if now := (stamp{info.ModTime(), info.Size()}); now != r.seen {
		handler, images, err := r.load()
		if err != nil {
			r.log.Warn("image layout not read", "error", err)
			return r.handler, r.images
		}
		r.seen, r.handler, r.images = now, handler, images
	}
	return r.handler, r.images
}

// load puts every image of the index into a new registry. It leaves a damaged image out, with a
// line in the log.
func (r *Registry) load() (http.Handler, []Image, error) {
	raw, err := readBounded(filepath.Join(r.layout, "index.json"))
	if err != nil {
		return nil, nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, fmt.Errorf("index.json: %w", err)
	}
	if len(index.Manifests) > maxManifests {
		return nil, nil, fmt.Errorf("index.json: more than %d manifests", maxManifests)
	}
	handler, images := empty(r.layout), []Image{}
	for _, m := range index.Manifests {
		text := m.Annotations[refName]
		if text == "" {
			continue
		}
		ref, err := name.NewTag(text)
		if err != nil {
			r.log.Warn("image left out", "image", text, "error", err)
			continue
		}
		// The registry of a name without one is not meant.
		repository := ref.RepositoryStr()
		if ref.RegistryStr() == name.DefaultRegistry {
			repository = plain(text)
		}
		if err := r.put(handler, repository, ref.TagStr(), m, 0); err != nil {
			r.log.Warn("image left out", "image", text, "error", err)
			continue
		}
		images = append(images, Image{Name: repository, Tag: ref.TagStr(), Digest: m.Digest.String()})
	}
	return handler, images, nil
}

// plain is the name as it is written, without "library/".
func plain(text string) string {
	for i := len(text) - 1; i >= 0; i-- {
		switch text[i] {
		case ':':
			return text[:i]
		case '/':
			return text
		}
	}
	return text
}

// put passes one manifest to the registry, after the manifests that it lists.
func (r *Registry) put(handler http.Handler, repository, target string, d v1.Descriptor, depth int) error {
	raw, err := readBounded(filepath.Join(r.layout, "blobs", d.Digest.Algorithm, d.Digest.Hex))
	if err != nil {
		return err
	}
	if got, _, err := v1.SHA256(bytes.NewReader(raw)); err != nil || got != d.Digest {
		return fmt.Errorf("manifest %s is not what its digest says: it is %s", d.Digest, got)
	}
	if d.MediaType.IsIndex() {
		if depth == maxNested {
			return errors.New("indexes in indexes in indexes")
		}
		index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil {
			return fmt.Errorf("index %s: %w", d.Digest, err)
		}
		for _, m := range index.Manifests {
			if err := r.put(handler, repository, m.Digest.String(), m, depth+1); err != nil {
				return err
			}
		}
	}
	req, err := http.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+target, bytes.NewReader(raw)) //nolint:noctx // handed to a handler, sent nowhere
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", string(d.MediaType))
	answer := &answer{header: http.Header{}}
	handler.ServeHTTP(answer, req)
	if answer.status != http.StatusCreated {
		return fmt.Errorf("the registry refuses manifest %s: %d %s", d.Digest, answer.status, answer.body.String())
	}
	return nil
}

// answer records a handler's answer.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(raw) > maxManifest {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxManifest)
	}
	return raw, err
}
