package phala

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
)

// The bounds of the platform's schema on shutdown_timeout.
const (
	MinShutdownTimeout = 10 * time.Second
	MaxShutdownTimeout = 20 * time.Minute
)

// size is the hardware of an instance type.
type size struct {
	VCPU     whole `json:"vcpu"`
	MemoryMB whole `json:"memory_mb"`
}

// unified changes all of s with one call and one boot. sent is false where the platform does
// not know the call, or has no way to say s in it: then nothing was changed, and the older
// calls are the way. The call names no instance type, only vCPUs and memory.
//
// Of one change alone it is used only where a time for the shutdown is set: the older calls
// cannot carry one.
func (c *Client) unified(ctx context.Context, doing, vmUUID string, s platform.Shape) (got platform.Accepted, sent bool, err error) {
	several := s.OSImage != "" && (s.InstanceType != "" || s.DiskGB > 0)
	if c.noPatch.Load() || !several && c.shutdown == 0 {
		return got, false, nil
	}
	path, err := cvmPath(vmUUID, "")
	if err != nil {
		return got, true, err
	}
	body := map[string]any{}
	if s.OSImage != "" {
		slug, err := c.imageSlug(ctx, s.OSImage)
		if err != nil {
			return got, true, fmt.Errorf("%s: %w", doing, err)
		}
		body["image"] = slug
	}
	if s.DiskGB > 0 {
		body["disk_size"] = s.DiskGB
	}
	if s.InstanceType != "" {
		wanted, ok := c.sizes(ctx)[s.InstanceType]
		if !ok {
			return got, false, nil // the call by the type's name is for the server to judge
		}
		body["vcpu"], body["memory"] = wanted.VCPU, wanted.MemoryMB
	}
	if c.shutdown > 0 {
		body["shutdown_timeout"], body["allow_force_stop"] = int(c.shutdown/time.Second), true
	}
	got, err = c.change(ctx, vmUUID, call{doing: doing, method: http.MethodPatch, path: path, body: body})
	var answer *Error
	if errors.As(err, &answer) && answer.Status == http.StatusMethodNotAllowed && errors.Is(err, platform.ErrRefused) {
		// The path is that of GET and DELETE, so a server without the call answers 405 and
		// no other: a 404 is a CVM that is gone.
		if !c.noPatch.Swap(true) {
			c.log.Warn("the platform has no PATCH of a cvm: until this process ends, each thing that changes takes a call and a boot of its own, without a time for the shutdown")
		}
		return platform.Accepted{}, false, nil
	}
	got.OSImage = err == nil && s.OSImage != ""
	return got, true, err
}

// sizes are the offered instance types with their hardware; empty where the platform does not list
// them. The client reads them until the platform has listed them once.
func (c *Client) sizes(ctx context.Context) map[string]size {
	c.mu.Lock()
	known := c.knownSizes
	c.mu.Unlock()
	if known != nil {
		return known
	}
	rows, err := c.instanceTypes(ctx)
	if err != nil {
		c.log.Debug("instance types not read", "error", err)
		return nil
	}
	known = map[string]size{}
	for _, row := range rows {
		if row.VCPU > 0 && row.MemoryMB > 0 {
			known[string(row.ID)] = row.size
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.knownSizes = known
	return known
}

// nameSizes names instance types by the hardware of the CVMs, where the platform shows other vCPUs
// or memory than the named type's, or names none. PATCH /cvms/{cvm} changes the hardware, and no
// source says whether the name follows. A size of several types names none.
func (c *Client) nameSizes(ctx context.Context, rows []cvm) {
	var known map[string]size
	for i := range rows {
		res := &rows[i].Resource.V
		if res.VCPU == 0 || res.MemoryGB == 0 {
			continue
		}
		has := size{VCPU: res.VCPU, MemoryMB: whole(float64(res.MemoryGB) * 1024)}
		if known == nil {
			if known = c.sizes(ctx); known == nil {
				return // not listed: asked once for a list of CVMs, instead of once for each row
			}
		}
		if named, ok := known[string(res.InstanceType)]; named == has || !ok && res.InstanceType != "" {
			continue
		}
		var fits []string
		for name, one := range known {
			if one == has {
				fits = append(fits, name)
			}
		}
		if len(fits) == 1 {
			res.InstanceType = text(fits[0])
		}
	}
}

// instanceType is a row of the list of instance types.
type instanceType struct {
	ID text `json:"id"`
	size
}

// instanceTypes are the offered types; nil: not listed.
func (c *Client) instanceTypes(ctx context.Context) ([]instanceType, error) {
	var reply json.RawMessage
	err := c.read(ctx, call{doing: "list instance types", method: http.MethodGet, path: "/instance-types", into: &reply, limit: maxListReply})
	var answer *Error
	var bad *httpcall.ReplyError
	switch {
	case errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed), errors.As(err, &bad):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return typesIn(reply, 6), nil
}

// typesIn takes the rows of a list whose form differs between versions: an array of rows,
// or an object that holds one; families hold rows of their own.
func typesIn(raw json.RawMessage, depth int) []instanceType {
	if depth == 0 {
		return nil
	}
	var rows []json.RawMessage
	if json.Unmarshal(raw, &rows) == nil {
		var out []instanceType
		for _, row := range rows {
			out = append(out, typesIn(row, depth-1)...)
		}
		return out
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, key := range []string{"items", "result", "instance_types"} {
		if inner, ok := fields[key]; ok {
			return typesIn(inner, depth-1)
		}
	}
	var row instanceType
	if json.Unmarshal(raw, &row) != nil || row.ID == "" {
		return nil
	}
	return []instanceType{row}
}
