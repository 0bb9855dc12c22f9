package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// nameForm is stricter than a VMM, which takes spaces as well.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Create implements platform.Platform. The CVM is made stopped, confirmed, and started. A stopped CVM of
// this name, app and content that never booted is an earlier attempt, and Create continues it. After a lost
// answer Create looks for the name once more.
//
// A CVM that this call made is no reason for ErrRefused: each later failure leaves the outcome to be
// read back, and the CVM may be listed as "stopped".
func (c *Client) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	doing := "create cvm " + req.Name
	if !nameForm.MatchString(req.Name) {
		return platform.Instance{}, fmt.Errorf("create cvm %.80q: the name must be 1 to 63 letters, digits, '.', '_' and '-': %w", req.Name, platform.ErrRefused)
	}
	select {
	case c.creating <- struct{}{}:
		defer func() { <-c.creating }()
	case <-ctx.Done():
		return platform.Instance{}, fmt.Errorf("%s: not sent: %w: %w", doing, platform.ErrRefused, context.Cause(ctx))
	}
	want, err := wanted(req)
	if err != nil {
		return platform.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	all, err := c.everyName(ctx, doing, req)
	if err != nil {
		return platform.Instance{}, err
	}
	earlier, err := all.attempt(req, want)
	if err != nil {
		return platform.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	if earlier.host != nil {
		c.log.Info("an earlier attempt of a create is continued", "name", req.Name, "node", earlier.host.Name, "vm_uuid", earlier.id)
		want.hasEnv = false // renewed before the start
		return c.finish(ctx, doing, earlier, want, req, true)
	}
	h, err := c.place(ctx, req, want, all)
	if err == nil && len(req.Template.Env) > 0 {
		want.EncryptedEnv, err = c.sealEnv(ctx, h, want.AppID, req.Provisioned.EnvKey, req.Template.Env)
	}
	if err != nil {
		return platform.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	id, err := c.order(ctx, doing, h, want)
	if err != nil {
		return platform.Instance{}, err
	}
	return c.finish(ctx, doing, found{h, id}, want, req, false)
}

// plan describes a CVM before it is made.
type plan struct {
	configuration
	hardware size
	hasEnv   bool
}

// wanted is the plan of req, without the members that depend on the host. The image is as the template names it.
func wanted(req platform.CreateRequest) (*plan, error) {
	t := req.Template
	doc, err := checkTemplate(t)
	if err != nil {
		return nil, err
	}
	s, err := sizeOf(t.InstanceType)
	if err != nil {
		return nil, err
	}
	refused := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), platform.ErrRefused)
	}
	text := string(t.AppCompose)
	appID := words.ID(cmp.Or(req.AppID, req.Provisioned.AppID))
	switch {
	case words.ID(req.Provisioned.ComposeHash) != hashOf(text):
		return nil, refused("the template hashes to %s, not to the decided %.64q: provision again", hashOf(text), req.Provisioned.ComposeHash)
	case !hex40Form.MatchString(appID):
		return nil, refused("app id %.64q is not 40 hex digits", appID)
	case !doc.hasKMS() && appID != hashOf(text)[:2*appIDSize]:
		return nil, refused("the app-compose.json names no key service, so the guest boots as app %s only, not as %s", hashOf(text)[:2*appIDSize], appID)
	case t.OSImage == "":
		return nil, refused("no os image is named, and a VMM has no default")
	case t.DiskGB < 0 || t.DiskGB > maxDiskGB:
		return nil, refused("a disk of %d GB: use 1 to %d", t.DiskGB, maxDiskGB)
	}
	return &plan{hardware: s, hasEnv: len(t.Env) > 0, configuration: configuration{
		Name: req.Name, Image: t.OSImage, ComposeFile: text, VCPU: s.vcpu, Memory: s.memoryMB,
		DiskSize: uint32(cmp.Or(t.DiskGB, defaultDiskGB)), AppID: appID, Stopped: true,
	}}, nil
}

const (
	defaultDiskGB = 20 // as on Phala Cloud
	maxDiskGB     = 64 << 10
)

// notOnTimeout bounds the question to a host whose answer a create can do without.
const notOnTimeout = time.Second

// names are the CVMs of every host, in brief.
type names []answer[[]vmInfo]

// everyName lists all hosts. Each must answer, since the name may be on any, except the nodes of req.NotOn. A new app
// needs every answer, since its id may be on any host too.
func (c *Client) everyName(ctx context.Context, doing string, req platform.CreateRequest) (names, error) {
	answers := ask(ctx, c.hosts, func(ctx context.Context, h *host) ([]vmInfo, error) {
		if req.AppID != "" && slices.Contains(req.NotOn, h.Name) {
			// The caller's time is for the hosts that answer.
			short, cancel := context.WithTimeoutCause(ctx, notOnTimeout, fmt.Errorf("no answer within %s", notOnTimeout))
			defer cancel()
			ctx = short
		}
		return h.status(ctx, statusRequest{Brief: true})
	})
	good, err := lost(doing, answers)
	may := "the name"
	switch missing, some := errors.AsType[*platform.Unanswered](err); {
	case err == nil:
		return good, nil
	case some && req.AppID == "":
		may = "the id of the new app"
	case some && !slices.ContainsFunc(missing.Nodes, func(n platform.NodeError) bool { return !slices.Contains(req.NotOn, n.Node) }):
		return good, nil
	}
	return nil, fmt.Errorf("%s: %s may be on a host that does not answer: remove a lost host from the endpoints: %w: %w: %w",
		doing, may, err, platform.ErrBusy, platform.ErrRefused)
}

// found is a CVM that a Create continues; zero: none.
type found struct {
	host *host
	id   string
}

// attempt finds an earlier attempt of req. The error says why the name or the app id is taken.
func (n names) attempt(req platform.CreateRequest, want *plan) (found, error) {
	var same []found
	for _, a := range n {
		for _, vm := range a.value {
			switch {
			case strings.EqualFold(vm.Name, req.Name):
				if vm.status() == statusRemoving {
					return found{}, fmt.Errorf("the name is that of cvm %s on node %s, which is being removed: %w: %w", vm.ID, a.host.Name, platform.ErrBusy, platform.ErrRefused)
				}
				if vm.Name != req.Name || vm.status() != statusStopped || vm.InstanceID != "" || words.ID(vm.AppID) != want.AppID {
					return found{}, fmt.Errorf("the name is that of cvm %s on node %s (%s): %w", vm.ID, a.host.Name, vm.status(), platform.ErrRefused)
				}
				same = append(same, found{a.host, vm.ID})
			case req.AppID == "" && words.ID(vm.AppID) == want.AppID:
				// Two apps of one id share their keys.
				return found{}, fmt.Errorf("a new app gets id %s, which cvm %s on node %s has: give the app an id of its own: %w",
					want.AppID, vm.Name, a.host.Name, platform.ErrRefused)
			}
		}
	}
	switch {
	case len(same) == 0:
		return found{}, nil
	case len(same) > 1:
		return found{}, fmt.Errorf("%d stopped cvms have the name, as of %s on node %s and %s on node %s: delete all but one: %w",
			len(same), same[0].id, same[0].host.Name, same[1].id, same[1].host.Name, platform.ErrRefused)
	case req.Node != "" && same[0].host.Name != req.Node:
		return found{}, fmt.Errorf("the name is that of cvm %s on node %s, and node %s is asked for: delete it there first: %w", same[0].id, same[0].host.Name, req.Node, platform.ErrRefused)
	}
	return same[0], nil
}

// place chooses the host, and completes want with the members that depend on it. Without a named node it is the
// host with the fewest CVMs that has the image and the GPUs.
func (c *Client) place(ctx context.Context, req platform.CreateRequest, want *plan, all names) (*host, error) {
	candidates := slices.Clone(all)
	slices.SortStableFunc(candidates, func(a, b answer[[]vmInfo]) int { return cmp.Compare(len(a.value), len(b.value)) })
	if req.Node != "" {
		candidates = slices.DeleteFunc(candidates, func(a answer[[]vmInfo]) bool { return a.host.Name != req.Node })
	}
	switch {
	case len(candidates) > 0:
	case slices.ContainsFunc(c.hosts, func(h *host) bool { return h.Name == req.Node }):
		return nil, fmt.Errorf("node %.64q does not answer: %w: %w", req.Node, platform.ErrBusy, platform.ErrRefused)
	default:
		return nil, fmt.Errorf("node %.64q is none of the endpoints: %w", req.Node, platform.ErrRefused)
	}
	var problems []error
	for _, a := range candidates {
		err := a.host.fit(ctx, want)
		if err == nil {
			return a.host, nil
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}

// fit sets the members of want that depend on the host.
func (h *host) fit(ctx context.Context, want *plan) error {
	image, err := h.image(ctx, want.Image)
	if err != nil {
		return err
	}
	want.GPUs = nil
	if s := want.hardware; s.allGPUs || s.gpus > 0 {
		if want.GPUs, err = h.attach(ctx, s, "", nil); err != nil {
			return err
		}
	}
	if h.Networking != "" {
		version, err := h.version(ctx)
		if err != nil {
			return notSent(err)
		}
		// An older host ignores the list, a newer one prefers it.
		want.Networking = &networking{Mode: h.Networking}
		if !before(version, withNetworks) {
			want.Networks = []networking{*want.Networking}
		}
	}
	want.Image = image
	return nil
}

// order sends CreateVm. A VMM that answers an error does not list the CVM. After a lost answer the
// one CVM of this name that is there now is the made one, since the names were asked for before.
func (c *Client) order(ctx context.Context, doing string, h *host, want *plan) (string, error) {
	var reply struct {
		ID string `json:"id"`
	}
	err := h.write(ctx, call{doing: "CreateVm of " + want.Name, method: "CreateVm", body: want.configuration, into: &reply})
	switch {
	case said(err):
		return "", fmt.Errorf("%s: %w: %w", doing, err, platform.ErrRefused)
	case errors.Is(err, platform.ErrRefused):
		return "", fmt.Errorf("%s: %w", doing, err)
	case err == nil && uuidForm.MatchString(strings.ToLower(reply.ID)):
		return reply.ID, nil
	case err == nil:
		err = fmt.Errorf("node %s: CreateVm of %s: the reply has the id %.64q, which is no uuid", h.Name, want.Name, reply.ID)
	}
	vms, looked := h.status(ctx, statusRequest{Brief: true})
	if looked != nil {
		return "", fmt.Errorf("%s: %w; looking for it: %w", doing, err, unknown(looked))
	}
	var ids []string
	for _, vm := range vms {
		if vm.Name == want.Name {
			ids = append(ids, vm.ID)
		}
	}
	if len(ids) != 1 {
		return "", fmt.Errorf("%s: %w; %d cvms have the name now", doing, err, len(ids))
	}
	c.log.Warn("the answer to a create was lost, and the cvm is there", "name", want.Name, "node", h.Name, "vm_uuid", ids[0], "error", err)
	return ids[0], nil
}

// finish confirms a stopped CVM and starts it. It was made: no error is ErrRefused. Where another
// process made a CVM of the name at the same time, the own one is removed before its first start. A continued CVM has
// the env of an earlier attempt, and gets the env of req.
func (c *Client) finish(ctx context.Context, doing string, at found, want *plan, req platform.CreateRequest, continued bool) (platform.Instance, error) {
	h, id := at.host, at.id
	failed := func(err error) (platform.Instance, error) {
		return platform.Instance{}, fmt.Errorf("%s: cvm %s on node %s is made and not started: %w", doing, id, h.Name, unknown(err))
	}
	vm, err := h.info(ctx, id)
	switch {
	case err != nil:
		return failed(err)
	case vm == nil:
		return failed(errors.New("the host does not show it"))
	}
	if wrong := differs(vm, want); wrong != "" {
		return failed(fmt.Errorf("the host shows %s: delete it", wrong))
	}
	switch alone, err := c.alone(ctx, doing, req, id); {
	case err != nil:
		return failed(err)
	case !alone:
		if err := h.write(ctx, call{doing: "RemoveVm of cvm " + id, method: "RemoveVm", body: idRequest{id}}); err != nil {
			return failed(fmt.Errorf("another cvm has its name: delete it: %w", err))
		}
		return platform.Instance{}, fmt.Errorf("%s: another cvm of this name was made at the same time, so the own one was removed before its first start: %w", doing, platform.ErrBusy)
	}
	if continued && (len(req.Template.Env) > 0 || vm.Configuration.EncryptedEnv != "") {
		sealed, err := c.sealEnv(ctx, h, want.AppID, req.Provisioned.EnvKey, req.Template.Env)
		if err == nil {
			err = c.send(ctx, "renew the env", h, vm, updateRequest{ID: id, EncryptedEnv: sealed})
		}
		if err != nil {
			return failed(err)
		}
	}
	c.remember(strings.ToLower(id), h)
	if _, err := h.start(ctx, vm); err != nil {
		return failed(err)
	}
	made := vm.instance(h)
	// As of before the start.
	made.Status, made.InProgress = "starting", true
	return made, nil
}

// alone reports that no other CVM has the name, for which every host is asked once more: another process
// may have made one since. Of two processes that make one name, the later finds the CVM of the
// earlier. Both may find both, and then neither CVM is started: an order among them would let an
// earlier one start that looked before the later one was there.
func (c *Client) alone(ctx context.Context, doing string, req platform.CreateRequest, id string) (bool, error) {
	// The CVM is made: a silent host matters for its name only.
	req.AppID = cmp.Or(req.AppID, req.Provisioned.AppID)
	all, err := c.everyName(ctx, doing, req)
	if err != nil {
		return false, err
	}
	for _, a := range all {
		for _, vm := range a.value {
			if vm.ID != id && strings.EqualFold(vm.Name, req.Name) && vm.status() != statusRemoving {
				return false, nil
			}
		}
	}
	return true, nil
}

// differs names the first difference between a made CVM and its plan; "": none. An earlier attempt has another
// ciphertext of the same env.
func differs(vm *vmInfo, want *plan) string {
	have := vm.Configuration
	switch {
	case have == nil:
		return "no configuration"
	case vm.status() != statusStopped:
		return "the status " + vm.status()
	case vm.Name != want.Name:
		return fmt.Sprintf("the name %.80q", vm.Name)
	case words.ID(vm.AppID) != want.AppID:
		return fmt.Sprintf("app id %.64q, not %s", vm.AppID, want.AppID)
	case have.ComposeFile != want.ComposeFile:
		return fmt.Sprintf("compose hash %s, not %s", hashOf(have.ComposeFile), hashOf(want.ComposeFile))
	case have.size() != want.hardware:
		return fmt.Sprintf("instance type %q, not %q", have.size().name(), want.hardware.name())
	case have.DiskSize != want.DiskSize:
		return fmt.Sprintf("a disk of %d GB, not %d", have.DiskSize, want.DiskSize)
	case have.Image != want.Image && !sameImage(have.Image, want.Image):
		return fmt.Sprintf("os image %.64q, not %s", have.Image, want.Image)
	case have.EncryptedEnv == "" && want.hasEnv:
		return "no environment"
	}
	return ""
}
