package vmm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// detailBatch is how many CVMs are read with their files by one call.
const detailBatch = 16

type statusRequest struct {
	IDs   []string `json:"ids"`
	Brief bool     `json:"brief"`
}

// status lists CVMs. Its reply is one moment of the host, since no page is asked for.
func (h *host) status(ctx context.Context, r statusRequest) ([]vmInfo, error) {
	var reply struct {
		VMs *[]vmInfo `json:"vms"`
	}
	if r.IDs == nil {
		r.IDs = []string{}
	}
	if err := h.read(ctx, call{doing: "Status", method: "Status", body: r, into: &reply, limit: maxListReply}); err != nil {
		return nil, err
	}
	if reply.VMs == nil {
		return nil, fmt.Errorf("node %s: Status: the reply has no list", h.Name)
	}
	return *reply.VMs, nil
}

// list is every CVM of the app on one host, of every app when appID is empty. The names come in one
// reply, so a CVM that goes or comes meanwhile shifts no page; the files follow in batches.
func (h *host) list(ctx context.Context, appID string) ([]vmInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.client.timeout, fmt.Errorf("no whole list within %s", h.client.timeout))
	defer cancel()
	brief, err := h.status(ctx, statusRequest{Brief: true})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, vm := range brief {
		if appID == "" || words.ID(vm.AppID) == appID {
			ids = append(ids, vm.ID)
		}
	}
	var out []vmInfo
	for batch := range slices.Chunk(ids, detailBatch) {
		rows, err := h.status(ctx, statusRequest{IDs: batch})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if slices.Contains(batch, row.ID) {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

// List implements platform.Platform. It asks every host at once, each within its own time.
func (c *Client) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	const doing = "list cvms"
	answers := ask(ctx, c.hosts, func(ctx context.Context, h *host) ([]vmInfo, error) { return h.list(ctx, words.ID(appID)) })
	good, missing := lost(doing, answers)
	if good == nil {
		return nil, missing
	}
	out := []platform.Instance{}
	seen := map[string]bool{}
	for _, a := range good {
		for _, vm := range a.value {
			i := vm.instance(a.host)
			c.remember(i.VMUUID, a.host)
			if seen[i.VMUUID] {
				c.remember(i.VMUUID, nil) // on two hosts: locate says so
				c.log.Warn("two hosts have one cvm, as after a copied directory: remove one of them", "vm_uuid", i.VMUUID, "node", i.Node)
			}
			seen[i.VMUUID] = true
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b platform.Instance) int {
		return strings.Compare(a.Name+"\x00"+a.VMUUID+"\x00"+a.Node, b.Name+"\x00"+b.VMUUID+"\x00"+b.Node)
	})
	return out, missing
}
