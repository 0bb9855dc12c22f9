package vmm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cadre.dev/platform"
)

// answer is the answer of one host.
type answer[T any] struct {
	host  *host
	value T
	err   error
}

// ask puts a question to hosts at once, and waits for all of them. The question bounds its own time.
func ask[T any](ctx context.Context, hosts []*host, question func(context.Context, *host) (T, error)) []answer[T] {
	out := make([]answer[T], len(hosts))
	var all sync.WaitGroup
	for n, h := range hosts {
		all.Go(func() {
			v, err := question(ctx, h)
			out[n] = answer[T]{host: h, value: v, err: err}
		})
	}
	all.Wait()
	return out
}

// lost splits the answers: the good answers, and the nodes without an answer. The error is nil when
// every host answered, an *Unanswered when some did, and an ordinary one when none did.
func lost[T any](doing string, answers []answer[T]) ([]answer[T], error) {
	var good []answer[T]
	missing := &platform.Unanswered{}
	for _, a := range answers {
		if a.err == nil {
			good = append(good, a)
		} else {
			missing.Nodes = append(missing.Nodes, platform.NodeError{Node: a.host.Name, Err: a.err})
		}
	}
	switch {
	case len(missing.Nodes) == 0:
		return good, nil
	case len(good) == 0:
		return nil, fmt.Errorf("%s: no host answers: %s", doing, missing.Error())
	}
	return good, missing
}

// info is GetInfo of one CVM; nil when the host has none of that id.
func (h *host) info(ctx context.Context, id string) (*vmInfo, error) {
	var reply struct {
		Found *bool   `json:"found"`
		Info  *vmInfo `json:"info"`
	}
	if err := h.read(ctx, call{doing: "GetInfo of cvm " + id, method: "GetInfo", body: idRequest{id}, into: &reply}); err != nil {
		return nil, err
	}
	switch {
	case reply.Found == nil, *reply.Found && (reply.Info == nil || !strings.EqualFold(reply.Info.ID, id)):
		return nil, fmt.Errorf("node %s: GetInfo of cvm %s: the reply says neither that it is there nor that it is not", h.Name, id)
	case !*reply.Found:
		return nil, nil
	}
	return reply.Info, nil
}

// locate finds the host of a CVM. The error is ErrNotFound only if every host said that it has none.
func (c *Client) locate(ctx context.Context, doing, id string) (*host, *vmInfo, error) {
	id = strings.ToLower(strings.TrimSpace(id))
	if !uuidForm.MatchString(id) {
		// A host takes the id as a part of a path.
		return nil, nil, fmt.Errorf("%s: the cvm's id %.64q is no uuid: %w", doing, id, platform.ErrRefused)
	}
	c.mu.Lock()
	hint := c.places[id]
	c.mu.Unlock()
	others := c.hosts
	var first []answer[*vmInfo]
	if hint != nil {
		vm, err := hint.info(ctx, id)
		if err == nil && vm != nil {
			return hint, vm, nil
		}
		first = []answer[*vmInfo]{{host: hint, value: vm, err: err}}
		others = nil
		for _, h := range c.hosts {
			if h != hint {
				others = append(others, h)
			}
		}
	}
	answers := append(first, ask(ctx, others, func(ctx context.Context, h *host) (*vmInfo, error) { return h.info(ctx, id) })...)
	good, missing := lost(doing, answers)
	var at []answer[*vmInfo]
	for _, a := range good {
		if a.value != nil {
			at = append(at, a)
		}
	}
	switch {
	case len(at) == 1:
		c.remember(id, at[0].host)
		return at[0].host, at[0].value, nil
	case len(at) > 1:
		return nil, nil, fmt.Errorf("%s: nodes %s and %s both have cvm %s, as after a copied directory: remove one of them: %w: %w",
			doing, at[0].host.Name, at[1].host.Name, id, platform.ErrBusy, platform.ErrRefused)
	case missing != nil:
		return nil, nil, fmt.Errorf("%s: the hosts that answer do not have it: %w", doing, missing)
	}
	c.remember(id, nil)
	return nil, nil, fmt.Errorf("%s: %w: %w", doing, platform.ErrNotFound, platform.ErrRefused)
}

// remember keeps the host of a CVM, or forgets it.
func (c *Client) remember(id string, h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h == nil {
		delete(c.places, id)
		return
	}
	c.places[id] = h
}

// find is locate before a call with an effect: where the host is unknown, nothing is sent, and the
// call may be made again later.
func (c *Client) find(ctx context.Context, doing, id string) (*host, *vmInfo, error) {
	h, vm, err := c.locate(ctx, doing, id)
	if err != nil && !errors.Is(err, platform.ErrRefused) {
		err = fmt.Errorf("%w (nothing was sent: %w: %w)", err, platform.ErrBusy, platform.ErrRefused)
	}
	return h, vm, err
}

// Describe implements platform.Platform. It takes a vm uuid.
func (c *Client) Describe(ctx context.Context, vmUUID string) (platform.Instance, error) {
	h, vm, err := c.locate(ctx, "describe cvm "+vmUUID, vmUUID)
	if err != nil {
		return platform.Instance{}, err
	}
	return vm.instance(h), nil
}
