package oci

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push copies images with the documents about them to "<prefix>/<name>:<version>", and returns the
// reference by digest of each. The credentials come from docker's and podman's configuration for
// the registry. Push uses no TLS for a registry on this machine.
func Push(ctx context.Context, prefix string, images []Named, transport http.RoundTripper, say func(string)) ([]string, error) {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("cadre-images")}
	if transport != nil {
		options = append(options, remote.WithTransport(transport))
	}
	prefix = strings.TrimSuffix(prefix, "/")
	var pinned []string
	for _, n := range images {
		tag, err := name.NewTag(prefix + "/" + n.Ref)
		if err != nil {
			return pinned, fmt.Errorf("%q is no place in a registry, such as registry.example/team: %w", prefix, err)
		}
		if err := remote.Write(tag, n.Image, options...); err != nil {
			return pinned, fmt.Errorf("push %s: %w", tag, err)
		}
		for _, a := range n.About {
			if err := remote.Write(tag.Context().Digest(a.Descriptor.Digest.String()), a, options...); err != nil {
				return pinned, fmt.Errorf("push %s of %s: %w", a.Descriptor.ArtifactType, tag, err)
			}
		}
		ref := tag.Context().Digest(n.Image.Descriptor.Digest.String()).String()
		say("pushed " + ref)
		pinned = append(pinned, ref)
	}
	return pinned, nil
}
