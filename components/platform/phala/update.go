package phala

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
	"cadre.dev/platform/internal/words"
)

// receipt is the reply to the asynchronous calls; any field may be missing.
type receipt struct {
	Status      text `json:"status"`
	Message     text `json:"message"`
	Correlation text `json:"correlation_id"`
}

// Update implements platform.Platform: it applies a provisioned compose file to
// one CVM in place.
func (c *Client) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	doing := "update cvm " + req.VMUUID
	path, err := cvmPath(req.VMUUID, "/compose_file")
	if err != nil {
		return platform.Accepted{}, err
	}
	if req.ComposeHash == "" {
		return platform.Accepted{}, fmt.Errorf("%s: no compose hash given: %w", doing, platform.ErrRefused)
	}
	body := map[string]any{"compose_hash": words.ID(req.ComposeHash)}
	if len(req.Env) > 0 {
		key, appID := req.EnvKey, ""
		if len(key) == 0 || c.keyService != nil {
			inst, err := c.Describe(ctx, req.VMUUID)
			if err != nil {
				return platform.Accepted{}, fmt.Errorf("%s: read its app and env key: %w: %w", doing, err, platform.ErrRefused)
			}
			appID = inst.AppID
			if len(key) == 0 {
				key = inst.EnvKey
			}
		}
		sealed, err := c.sealEnv(ctx, req.KMS, appID, key, req.Env)
		if err != nil {
			return platform.Accepted{}, fmt.Errorf("%s: %w", doing, err)
		}
		body["encrypted_env"], body["env_keys"], body["update_env_vars"] = sealed, dstacksdk.EnvNames(req.Env), true
	}
	return c.change(ctx, req.VMUUID, call{doing: doing, method: http.MethodPatch, path: path, body: body})
}

// Restart implements platform.Platform.
func (c *Client) Restart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.power(ctx, vmUUID, "restart", map[string]any{"force": false})
}

// ForceRestart implements platform.Platform.
func (c *Client) ForceRestart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.power(ctx, vmUUID, "restart", map[string]any{"force": true})
}

// Stop implements platform.Platform; it lets the guest shut down.
func (c *Client) Stop(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.power(ctx, vmUUID, "shutdown", nil)
}

// ForceStop implements platform.Platform.
func (c *Client) ForceStop(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.power(ctx, vmUUID, "stop", nil)
}

// Start implements platform.Platform.
func (c *Client) Start(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.power(ctx, vmUUID, "start", nil)
}

func (c *Client) power(ctx context.Context, vmUUID, verb string, body any) (platform.Accepted, error) {
	path, err := cvmPath(vmUUID, "/"+verb)
	if err != nil {
		return platform.Accepted{}, err
	}
	return c.accept(ctx, call{doing: verb + " cvm " + vmUUID, method: http.MethodPost, path: path, body: body})
}

// accept makes an asynchronous call about one CVM. A success whose body says nothing
// useful is still accepted: the caller polls either way.
func (c *Client) accept(ctx context.Context, r call) (platform.Accepted, error) {
	var reply object[receipt]
	r.into = &reply
	err := c.write(ctx, r)
	if bad := (*httpcall.ReplyError)(nil); errors.As(err, &bad) {
		c.log.Warn("platform accepted without a readable reply", "doing", r.doing, "error", err)
		err = nil
	}
	if err != nil {
		return platform.Accepted{}, err
	}
	return receipted(r, reply.V)
}

// change is accept for an update in place of one CVM. A verdict about a CVM in transition is valid
// only for that moment. change returns ErrBusy for it, in any words of the platform, so that the
// caller takes the member neither for refused nor for changed.
func (c *Client) change(ctx context.Context, vmUUID string, r call) (platform.Accepted, error) {
	got, err := c.accept(ctx, r)
	var answer *Error
	switch {
	case err == nil && !got.NoChange:
		return got, nil
	case err != nil && (!errors.As(err, &answer) || !errors.Is(err, platform.ErrRefused)):
		return got, err // nothing was said, or nothing certain
	case errors.Is(err, platform.ErrBusy), errors.Is(err, platform.ErrThrottled), errors.Is(err, platform.ErrNotFound):
		return got, err
	}
	inst, looked := c.Describe(ctx, vmUUID)
	switch {
	case looked != nil && (!errors.Is(looked, platform.ErrRefused) || errors.Is(looked, platform.ErrThrottled)):
		return platform.Accepted{}, fmt.Errorf("%s: %w: %w: whether it is in transition is unknown: %w",
			r.doing, platform.ErrBusy, platform.ErrRefused, errors.Join(err, looked))
	case looked == nil && underWay(inst):
		return platform.Accepted{}, fmt.Errorf("%s: %w (%s): %w", r.doing, platform.ErrBusy, inst.Status, errors.Join(platform.ErrRefused, err))
	}
	return got, err
}

// underWay reports a CVM that does not stay as it is.
func underWay(i platform.Instance) bool {
	switch s := i.Status; {
	case i.InProgress:
		return true
	case s == "stopped":
		return false
	case strings.HasPrefix(s, "stop"), strings.HasPrefix(s, "shut"):
		return true
	default:
		return slices.Contains([]string{"pending", "starting", "updating", "restarting", "deleting"}, s)
	}
}

// receipted reads the reply to a call that was accepted.
func receipted(r call, got receipt) (platform.Accepted, error) {
	switch strings.ToLower(string(got.Status)) {
	case "precondition_required":
		return platform.Accepted{}, fmt.Errorf("%s: %w: %s: %w",
			r.doing, platform.ErrOnChain, words.OneLine(string(got.Message), maxMessage), platform.ErrRefused)
	case "no_change":
		return platform.Accepted{Correlation: string(got.Correlation), NoChange: true}, nil
	default:
		return platform.Accepted{Correlation: string(got.Correlation)}, nil
	}
}

// Delete implements platform.Platform: gone already is success (R68).
func (c *Client) Delete(ctx context.Context, vmUUID string) error {
	path, err := cvmPath(vmUUID, "")
	if err != nil {
		return err
	}
	err = c.write(ctx, call{doing: "delete cvm " + vmUUID, method: http.MethodDelete, path: path})
	if errors.Is(err, platform.ErrNotFound) {
		return nil
	}
	return err
}

// nodeID is a number on the wire where it is one.
func nodeID(s string) any {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return s
}
