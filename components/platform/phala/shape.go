package phala

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
)

// SetOSImage implements platform.Platform.
func (c *Client) SetOSImage(ctx context.Context, vmUUID, image string) (platform.Accepted, error) {
	doing := "set os image of cvm " + vmUUID
	path, err := cvmPath(vmUUID, "/os-image")
	if err != nil {
		return platform.Accepted{}, err
	}
	if image == "" {
		return platform.Accepted{}, fmt.Errorf("%s: no image named: %w", doing, platform.ErrRefused)
	}
	if got, sent, err := c.unified(ctx, doing, vmUUID, platform.Shape{OSImage: image}); sent {
		return got, err
	}
	slug, err := c.imageSlug(ctx, image)
	if err != nil {
		return platform.Accepted{}, fmt.Errorf("%s: %w", doing, err)
	}
	return c.change(ctx, vmUUID, call{doing: doing, method: http.MethodPatch, path: path, body: map[string]any{"os_image_name": slug}})
}

// slugForm is a full name, which ends in digits of the image's hash.
var slugForm = regexp.MustCompile(`-[0-9a-f]{8}$`)

// imageSlug is the full name of an image that a spec may name without the digits of its
// build: the server refuses a name without them. Two builds of one name are for a person to
// choose from. A name that the server does not list is sent as it is, for the server to judge.
func (c *Client) imageSlug(ctx context.Context, image string) (string, error) {
	if image == "" || slugForm.MatchString(image) {
		return image, nil
	}
	var slugs []string
	for page := 1; page <= maxPages; page++ {
		var reply struct {
			Items []struct {
				Name text `json:"name"`
				Slug text `json:"slug"`
			} `json:"items"`
			Pages whole `json:"pages"`
		}
		err := c.read(ctx, call{doing: "list os images", method: http.MethodGet, into: &reply, limit: maxListReply,
			path: fmt.Sprintf("/os-images?page=%d&page_size=%d", page, pageSize)})
		answer, bad := (*Error)(nil), (*httpcall.ReplyError)(nil)
		switch {
		case errors.As(err, &answer) && answer.Status == http.StatusNotFound, errors.As(err, &bad):
			return image, nil // a server without the list takes short names
		case err != nil:
			return "", fmt.Errorf("%w (nothing was changed: %w)", err, platform.ErrRefused)
		}
		for _, row := range reply.Items {
			if slug := string(row.Slug); slug != "" && group.SameOSImage(slug, image) && !slices.Contains(slugs, slug) {
				slugs = append(slugs, slug)
			}
		}
		if len(reply.Items) == 0 || page >= int(reply.Pages) {
			break
		}
	}
	switch len(slugs) {
	case 0:
		return image, nil
	case 1:
		c.log.Info("os image named in full", "os_image", image, "slug", slugs[0])
		return slugs[0], nil
	default:
		slices.Sort(slugs)
		return "", fmt.Errorf("os image %q is the name of several builds: name one of %s: %w", image, strings.Join(slugs, ", "), platform.ErrRefused)
	}
}

// Resize implements platform.Platform.
func (c *Client) Resize(ctx context.Context, vmUUID string, s platform.Shape) (platform.Accepted, error) {
	doing := "resize cvm " + vmUUID
	path, err := cvmPath(vmUUID, "/resources")
	if err != nil {
		return platform.Accepted{}, err
	}
	// Without leave to restart a platform would take the change and not boot with it.
	body := map[string]any{"allow_restart": true}
	if s.InstanceType != "" {
		body["instance_type"] = s.InstanceType
	}
	if s.DiskGB > 0 {
		body["disk_size"] = s.DiskGB
	}
	if len(body) == 1 || s.DiskGB < 0 {
		return platform.Accepted{}, fmt.Errorf("%s: %+v is no shape to change to: %w", doing, s, platform.ErrRefused)
	}
	if got, sent, err := c.unified(ctx, doing, vmUUID, s); sent {
		return got, err
	}
	return c.change(ctx, vmUUID, call{doing: doing, method: http.MethodPatch, path: path, body: body})
}

// Offer implements platform.Platform: the images of any node and the instance types. A server
// without a list of instance types gives a nil list.
func (c *Client) Offer(ctx context.Context) (platform.Offer, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return platform.Offer{}, err
	}
	out := platform.Offer{}
	for _, n := range nodes {
		out.OSImages = append(out.OSImages, n.Images...)
	}
	types, err := c.instanceTypes(ctx)
	if err != nil {
		return platform.Offer{}, err
	}
	for _, t := range types {
		out.InstanceTypes = append(out.InstanceTypes, string(t.ID))
	}
	return out, nil
}
