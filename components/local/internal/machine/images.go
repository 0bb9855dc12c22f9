package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/images"
)

// Prepare pulls the CVM's images while it boots, as far as possible. Boot reports the failures.
func (h *Hypervisor) Prepare(ctx context.Context, spec cloud.BootSpec) {
	_, _ = h.unpack(ctx, spec)
}

// unpack returns the container images of the compose file by reference, without the images that
// programs of the image map replace. An invalid file has none: pid 1 reports the reason.
func (h *Hypervisor) unpack(ctx context.Context, spec cloud.BootSpec) (map[string]images.Unpacked, error) {
	if h.cfg.Store == nil {
		return nil, nil
	}
	app, err := compose.Load(ctx, []byte(spec.Compose), spec.Env)
	if err != nil {
		return nil, nil //nolint:nilerr // as the comment says
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	out, errs := map[string]images.Unpacked{}, []error{}
	for _, svc := range app.Services {
		all.Go(func() {
			img, mapped, err := h.imageOf(ctx, svc.Image)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("service %s: %w", svc.Name, err))
			case !mapped:
				out[svc.Image] = img
			}
		})
	}
	all.Wait()
	if len(out) > 0 {
		if _, err := os.Stat(h.cfg.Become); err != nil {
			errs = append(errs, fmt.Errorf("%s, which starts services of images, is not at %q: build it with `make build`", become.Program, h.cfg.Become))
		}
	}
	return out, errors.Join(errs...)
}

// imageOf returns the image that a reference pins. Mapped programs replace it only where no image
// with that digest exists.
func (h *Hypervisor) imageOf(ctx context.Context, ref string) (img images.Unpacked, mapped bool, err error) {
	if h.cfg.Images.Has(ref) {
		has, err := h.cfg.Store.Has(ctx, ref)
		if err != nil || !has {
			return images.Unpacked{}, true, err
		}
	}
	img, err = h.cfg.Store.Ensure(ctx, ref)
	return img, false, err
}
