package registry

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func image(t *testing.T, arch string) v1.Image {
	t.Helper()
	out, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func index(t *testing.T, arches ...string) v1.ImageIndex {
	t.Helper()
	out := v1.ImageIndex(empty.Index)
	for _, arch := range arches {
		out = mutate.AppendManifests(out, mutate.IndexAddendum{Add: image(t, arch), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	return out
}

func TestSUP01_TagsAreResolved(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref := func(tag string) name.Reference {
		out, err := name.ParseReference(host + "/team/app:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	single, many := image(t, "amd64"), index(t, "arm64", "amd64")
	for tag, write := range map[string]func() error{
		"single": func() error { return remote.Write(ref("single"), single) },
		"arm":    func() error { return remote.Write(ref("arm"), image(t, "arm64")) },
		"many":   func() error { return remote.WriteIndex(ref("many"), many) },
		"arms":   func() error { return remote.WriteIndex(ref("arms"), index(t, "arm64")) },
	} {
		if err := write(); err != nil {
			t.Fatalf("push %s: %v", tag, err)
		}
	}
	wantSingle, _ := single.Digest()
	wantMany, _ := many.Digest()
	for tag, want := range map[string]string{"single": wantSingle.String(), "many": wantMany.String()} {
		if got, err := (Resolver{}).Resolve(t.Context(), ref(tag).String()); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", tag, got, err, want)
		}
	}
	for reference, want := range map[string]string{
		ref("arm").String():    "no image for linux/amd64",
		ref("arms").String():   "no image for linux/amd64",
		ref("nobody").String(): "registry " + host + " has no",
		"UPPER/case":           "not an image reference",
	} {
		if got, err := (Resolver{}).Resolve(t.Context(), reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %q", reference, got, err, want)
		}
	}
}

func TestFailuresNameTheRegistryAndAWayOut(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	offline := closed.Addr().String()
	closed.Close()
	for status, want := range map[int]string{
		http.StatusUnauthorized: "docker login", http.StatusForbidden: "docker login", http.StatusTooManyRequests: "limits the number", http.StatusTeapot: "answers HTTP 418",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		host := strings.TrimPrefix(server.URL, "http://")
		if _, err := (Resolver{}).Resolve(t.Context(), host+"/app:1"); err == nil || !strings.Contains(err.Error(), host) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
		server.Close()
	}
	if _, err := (Resolver{}).Resolve(t.Context(), offline+"/app:1"); err == nil || !strings.Contains(err.Error(), "registry "+offline+" cannot be reached") {
		t.Errorf("offline: %v", err)
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (Resolver{}).Resolve(ctx, strings.TrimPrefix(silent.URL, "http://")+"/app:1"); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("silent: %v", err)
	}
}
