package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Resolver resolves tags. The zero value uses the credentials of `docker login`.
type Resolver struct {
	// Keychain has the credentials; nil: Docker's configuration.
	Keychain authn.Keychain
	// Transport carries the calls; nil: the library's, which times out dials.
	Transport http.RoundTripper
}

// platform is the only platform of CVMs on Intel TDX.
var platform = v1.Platform{OS: "linux", Architecture: "amd64"}

// Resolve returns the digest of a tagged reference, "sha256:...". An index keeps
// its own digest, which fixes the image of every platform; it must have one for
// linux/amd64. The error names the registry and a way out. ctx bounds the call.
func (r Resolver) Resolve(ctx context.Context, reference string) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%q is not an image reference: %w", reference, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithAuthFromKeychain(r.keychain())}
	if r.Transport != nil {
		options = append(options, remote.WithTransport(r.Transport))
	}
	found, err := remote.Get(ref, options...)
	if err != nil {
		return "", explain(ref, err)
	}
	if found.Digest.Algorithm != "sha256" {
		return "", fmt.Errorf("%s has a digest of kind %s; only sha256 is taken", reference, found.Digest.Algorithm)
	}
	if err := forOurs(found); err != nil {
		return "", fmt.Errorf("%s: %w", reference, explain(ref, err))
	}
	return found.Digest.String(), nil
}

func (r Resolver) keychain() authn.Keychain {
	if r.Keychain != nil {
		return r.Keychain
	}
	return authn.DefaultKeychain
}

var errPlatform = errors.New("has no image for linux/amd64, which CVMs run: name another tag")

// forOurs makes sure that there is an image that a CVM can run.
func forOurs(found *remote.Descriptor) error {
	if !found.MediaType.IsIndex() {
		image, err := found.Image()
		if err != nil {
			return err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		if config.OS != platform.OS || config.Architecture != platform.Architecture {
			return errPlatform
		}
		return nil
	}
	index, err := found.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil && m.Platform.OS == platform.OS && m.Platform.Architecture == platform.Architecture {
			return nil
		}
	}
	return errPlatform
}

// explain names the registry and the way out.
func explain(ref name.Reference, err error) error {
	host := ref.Context().RegistryStr()
	var refused *transport.Error
	var network net.Error
	switch {
	case errors.Is(err, errPlatform):
		return err
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("registry %s refuses %s (HTTP %d): it does not exist or needs `docker login %s`", host, ref.Name(), refused.StatusCode, host)
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return fmt.Errorf("registry %s has no %s: check name and tag", host, ref.Name())
	case errors.As(err, &refused) && refused.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("registry %s limits the number of calls: try again later, or `docker login %s`", host, host)
	case errors.As(err, &refused):
		return fmt.Errorf("registry %s answers HTTP %d for %s", host, refused.StatusCode, ref.Name())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("registry %s did not answer in time: try again, or give more --timeout: %w", host, err)
	case errors.As(err, &network), strings.Contains(err.Error(), "dial "):
		return fmt.Errorf("registry %s cannot be reached (%w): run this where it can, or write the digest by hand (docker buildx imagetools inspect %s)", host, err, ref.Name())
	}
	return fmt.Errorf("registry %s: %w", host, err)
}
