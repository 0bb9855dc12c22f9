package vmm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// Host is the description of a node by its VMM.
type Host struct {
	platform.Node
	// Version of the VMM, e.g. "0.5.11".
	Version string
	// KMSURLs and GatewayURLs are those of CVMs that name none.
	KMSURLs, GatewayURLs []string
	GatewayDomain        string
	// NetworkingModes that a CVM may have; nil: unknown, up to 0.5.11.
	NetworkingModes []string
	GPUs            []GPU
}

type metaReply struct {
	KMS struct {
		URLs []string `json:"urls"`
	} `json:"kms"`
	Gateway struct {
		URLs       []string `json:"urls"`
		BaseDomain string   `json:"base_domain"`
	} `json:"gateway"`
	Resources struct {
		MaxCVMs int `json:"max_cvm_number"`
	} `json:"resources"`
	Networking struct {
		Modes []string `json:"supported_modes"`
	} `json:"networking"`
}

// Hosts asks every host for its description. The error is as of List.
func (c *Client) Hosts(ctx context.Context) ([]Host, error) {
	answers := ask(ctx, c.hosts, func(ctx context.Context, h *host) (Host, error) { return h.describe(ctx) })
	good, missing := lost("list nodes", answers)
	var out []Host
	for _, a := range good {
		out = append(out, a.value)
	}
	return out, missing
}

func (h *host) describe(ctx context.Context) (Host, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.client.timeout, fmt.Errorf("no whole description within %s", h.client.timeout))
	defer cancel()
	out := Host{Node: platform.Node{ID: h.Name, Name: h.Name, Region: h.Region}}
	var err error
	if out.Images, err = h.imageNames(ctx); err != nil {
		return out, err
	}
	if out.Version, err = h.version(ctx); err != nil {
		return out, err
	}
	var meta metaReply
	if err = h.read(ctx, call{doing: "GetMeta", method: "GetMeta", into: &meta}); err != nil {
		return out, err
	}
	out.KMSURLs, out.GatewayURLs, out.NetworkingModes = meta.KMS.URLs, meta.Gateway.URLs, meta.Networking.Modes
	if domain := meta.Gateway.BaseDomain; words.Domain(domain) == domain {
		out.GatewayDomain = meta.Gateway.BaseDomain
	}
	vms, err := h.status(ctx, statusRequest{Brief: true})
	if err != nil {
		return out, err
	}
	out.CVMSlots = max(0, meta.Resources.MaxCVMs-len(vms))
	out.GPUs, _, err = h.gpus(ctx)
	return out, err
}

// Nodes implements platform.Platform: one per endpoint, with the endpoint's name as its id. The nodes
// that answered come with an *platform.Unanswered for the others, as in List.
func (c *Client) Nodes(ctx context.Context) ([]platform.Node, error) {
	hosts, err := c.Hosts(ctx)
	out := []platform.Node{}
	for _, h := range hosts {
		out = append(out, h.Node)
	}
	return out, err
}

func (h *host) imageNames(ctx context.Context) ([]string, error) {
	var reply struct {
		Images *[]struct {
			Name string `json:"name"`
		} `json:"images"`
	}
	if err := h.read(ctx, call{doing: "ListImages", method: "ListImages", into: &reply, limit: maxListReply}); err != nil {
		return nil, err
	}
	if reply.Images == nil {
		return nil, fmt.Errorf("node %s: ListImages: the reply has no list", h.Name)
	}
	names := []string{}
	for _, i := range *reply.Images {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	h.client.mu.Lock()
	defer h.client.mu.Unlock()
	h.client.images[h] = names
	return names, nil
}

// image is the host's name of an image that a spec may name with or without digits of its build. An
// UpdateVm or CreateVm of an absent image fails after its files are written, so the driver asks
// before.
func (h *host) image(ctx context.Context, name string) (string, error) {
	names, err := h.imageNames(ctx)
	if err != nil {
		return "", notSent(err)
	}
	var found []string
	for _, one := range names {
		if one == name {
			return one, nil
		}
		if group.SameOSImage(one, name) {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("node %s has no os image %.64q: choose one of %s, or put it there: %w: %w",
			h.Name, name, strings.Join(names, ", "), platform.ErrNotOffered, platform.ErrRefused)
	}
	return "", fmt.Errorf("node %s: os image %.64q is the name of several: name one of %s: %w", h.Name, name, strings.Join(found, ", "), platform.ErrRefused)
}

// Offer implements platform.Platform: the images of any host, and the instance types of this driver.
// For a host that does not answer, its last list of images counts; without one, the images are
// unknown.
func (c *Client) Offer(ctx context.Context) (platform.Offer, error) {
	out := platform.Offer{OSImages: []string{}, AlsoInstanceType: func(name string) bool { _, err := sizeOf(name); return err == nil }}
	for _, t := range instanceTypes {
		out.InstanceTypes = append(out.InstanceTypes, t.name)
	}
	answers := ask(ctx, c.hosts, func(ctx context.Context, h *host) ([]string, error) { return h.imageNames(ctx) })
	if good, err := lost("list os images", answers); good == nil {
		return platform.Offer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hosts {
		names, ok := c.images[h]
		if !ok {
			out.OSImages = nil
			return out, nil
		}
		out.OSImages = append(out.OSImages, names...)
	}
	slices.Sort(out.OSImages)
	out.OSImages = slices.Compact(out.OSImages)
	return out, nil
}

// version is the VMM's version. It is read before each call that depends on it: a host may be
// upgraded at any time.
func (h *host) version(ctx context.Context) (string, error) {
	var reply struct {
		Version string `json:"version"`
	}
	if err := h.read(ctx, call{doing: "Version", method: "Version", into: &reply}); err != nil {
		return "", err
	}
	return h.clean(reply.Version), nil
}

// before reports a version older than major.minor.patch. An unreadable one is not: the newest
// form is sent to it.
func before(version string, want [3]int) bool {
	version = strings.TrimPrefix(version, "v")
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return false
	}
	for n := range want {
		have := 0
		if n < len(parts) {
			var err error
			if have, err = strconv.Atoi(parts[n]); err != nil {
				return false
			}
		}
		if have != want[n] {
			return have < want[n]
		}
	}
	return false
}

var (
	// withUpdate is the first version with UpdateVm; older ones have UpgradeApp and ResizeVm.
	withUpdate = [3]int{0, 5, 6}
	// withNetworks is the first version that takes networks; older ones ignore the member, and take
	// networking.
	withNetworks = [3]int{0, 5, 12}
)
