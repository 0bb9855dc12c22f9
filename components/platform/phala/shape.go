package phala

import (
	"context"
	"fmt"
	"net/http"

	"cadre.dev/platform"
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
	return c.accept(ctx, call{doing: doing, method: http.MethodPatch, path: path, body: map[string]any{"os_image_name": image}})
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
	return c.accept(ctx, call{doing: doing, method: http.MethodPatch, path: path, body: body})
}

// Offer implements platform.Platform: the images of any node, the instance types of the
// account. A server that does not tell either leaves it untold.
func (c *Client) Offer(ctx context.Context) (platform.Offer, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return platform.Offer{}, err
	}
	var out platform.Offer
	for _, n := range nodes {
		out.OSImages = append(out.OSImages, n.Images...)
	}
	return out, nil
}
