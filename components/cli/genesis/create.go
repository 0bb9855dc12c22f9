package genesis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/compose/lint"
	"cadre.dev/core/appcompose"
	"cadre.dev/platform"
)

// Cloud is the platform with the one call more that a new app needs.
type Cloud interface {
	platform.Platform
	NextAppID(ctx context.Context) (appID, nonce string, err error)
}

// Options of Create.
type Options struct {
	Cluster groupfile.Cluster
	// ContextPath is where the context is kept.
	ContextPath string
	Cloud       Cloud
	// APIKey goes into the coordinators' encrypted env.
	APIKey string
	// Say receives progress messages, one line at a time.
	Say func(string)
	// Poll is the pause between looks at the platform, default 2 s.
	Poll time.Duration
	Dial client.Options
	// Step bounds the time of a coordinator from its change until it is well, in an upgrade or a
	// replacement; default DefaultStep.
	Step time.Duration
	// Env: an upgrade gives each coordinator the env values of the file again, also where its content does
	// not change. An interrupted one begins with the first coordinator again.
	Env bool
	// KMSAllows is the compose hash that, by the word of a person, the key service of own hosts allows the
	// coordinators. An upgrade without Cluster.Platform.KMSAuthFile needs it.
	KMSAllows string
	// Reach talks to single coordinators; nil: through the gateway.
	Reach Reach
}

// poll sets the default of Poll.
func (o *Options) poll() {
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
}

// Create makes the cluster, or its missing parts, and returns its context with the CA pinned. ctx
// bounds the whole call.
func Create(ctx context.Context, o Options) (client.Context, error) {
	o.poll()
	c, err := prepare(ctx, o)
	if err != nil {
		return c, err
	}
	coordinator, err := facts(o, c)
	if err != nil {
		return c, err
	}
	cvms, c, err := deploy(ctx, o, c, coordinator)
	if err != nil {
		return c, err
	}
	if err := running(ctx, o, c, cvms); err != nil {
		return c, err
	}
	if c, err = Pin(ctx, o, c); err != nil {
		return c, err
	}
	return c, lead(ctx, o, c)
}

// prepare loads the context of an earlier run or makes one, and saves it before
// anything is made on the platform.
func prepare(ctx context.Context, o Options) (client.Context, error) {
	want := o.Cluster
	old, err := client.LoadContext(o.ContextPath)
	if err == nil {
		trust := want.Trust
		trust.CoordinatorAppID, trust.OperatorTokenSHA256 = old.CoordinatorAppID, tokenDigest(old.Token)
		switch {
		case old.Cluster != want.Name:
			return old, fmt.Errorf("context %s is of cluster %q, not %q", o.ContextPath, old.Cluster, want.Name)
		case !sameTrust(old.Trust, trust):
			return old, fmt.Errorf("cluster %s was begun with another trust block (context %s): put it back, or delete the cluster first", want.Name, o.ContextPath)
		}
		o.Say(fmt.Sprintf("continuing cluster %s (app %s)", old.Cluster, old.CoordinatorAppID))
		want.Gateway.Domain = cmp.Or(want.Gateway.Domain, old.Gateway.Domain)
		old.Gateway, old.Platform = client.Gateway(want.Gateway), platformOf(want.Platform)
		return old, old.Save(o.ContextPath)
	}
	if !errors.Is(err, client.ErrNoContext) {
		return client.Context{}, err
	}
	list, err := o.Cloud.List(ctx, "")
	if err != nil {
		return client.Context{}, err
	}
	if err := nameFree(list, want.Name); err != nil {
		return client.Context{}, err
	}
	if want.Gateway.Domain == "" {
		if want.Gateway.Domain, err = platform.GatewayDomain(list); err != nil {
			return client.Context{}, fmt.Errorf("gateway.domain is not set: %w", err)
		}
		o.Say("gateway domain as the platform names it: " + want.Gateway.Domain)
	}
	appID, nonce, err := o.Cloud.NextAppID(ctx)
	if err != nil {
		return client.Context{}, err
	}
	token, err := uuid.NewRandom()
	if err != nil {
		return client.Context{}, fmt.Errorf("make the operator's token: %w", err)
	}
	c := client.Context{
		Cluster: want.Name, Gateway: client.Gateway(want.Gateway), CoordinatorAppID: appID, CoordinatorAppNonce: nonce,
		Token: token.String(), Trust: want.Trust, Platform: platformOf(want.Platform),
	}
	c.Trust.CoordinatorAppID, c.Trust.OperatorTokenSHA256 = appID, tokenDigest(c.Token)
	o.Say(fmt.Sprintf("cluster %s gets app id %s; context %s", c.Cluster, appID, o.ContextPath))
	return c, c.Save(o.ContextPath)
}

func tokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func sameTrust(a, b any) bool {
	// Compared as they are written: nil and empty lists are the same there.
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func facts(o Options, c client.Context) (groupfile.Coordinator, error) {
	trust, err := json.Marshal(c.Trust)
	if err != nil {
		return groupfile.Coordinator{}, fmt.Errorf("write the trust file: %w", err)
	}
	co, err := o.Cluster.Coordinator(groupfile.Facts{
		Cluster: c.Cluster, CoordinatorAppID: c.CoordinatorAppID, TrustJSON: string(trust), PlatformAPI: o.Cluster.Platform.InCVM, PlatformAPIKey: o.APIKey,
	})
	if err != nil {
		return co, err
	}
	return co, lintErrors(co)
}

// lintErrors rejects coordinators whose measurement would not fix the code that they run.
func lintErrors(co groupfile.Coordinator) error {
	var errs []error
	for _, f := range lint.Errors(lint.Spec(co.Compose, envOf(co.Env, 0))) {
		errs = append(errs, fmt.Errorf("coordinator: %s", f))
	}
	if name := appcompose.Beyond(slices.Sorted(maps.Keys(co.Env)), nil, appcompose.CoordinatorNames()); name != "" {
		errs = append(errs, fmt.Errorf("coordinator: env.%s: coordinators read only %s from the environment, and agents refuse coordinators with any other: write it into the compose file",
			name, strings.Join(appcompose.CoordinatorNames(), ", ")))
	}
	return errors.Join(errs...)
}

// Slot is the name of the n-th coordinator.
func Slot(n int) string { return fmt.Sprintf("coordinator-%d", n) }

// CVMName is the CVM's name on the platform.
func CVMName(cluster string, n int) string { return cluster + "-" + Slot(n) }

// Pin verifies a coordinator's attestation and saves its CA and cluster ID in the context. Pin
// waits for a coordinator that answers, and fails at once when one cannot prove itself. Meanwhile it says
// why CVMs do not boot: a host starts them again, so that another answer of its key service helps.
func Pin(ctx context.Context, o Options, c client.Context) (client.Context, error) {
	o.Say("waiting for a coordinator to answer and prove itself")
	var last error
	said := ""
	for {
		attempt, cancel := context.WithTimeout(ctx, 15*time.Second)
		if why := unbooted(attempt, o, c); why != "" && why != said {
			o.Say(why)
			said = why
		}
		got, err := client.Attest(attempt, c, o.Dial)
		cancel()
		if err == nil {
			o.Say(fmt.Sprintf("%s is proven: cluster ID %s, app %s, compose hash %s", got.Slot, got.ClusterID, got.Claims.AppID, got.Claims.ComposeHash))
			if got.Claims.Simulated {
				o.Say("the evidence is simulated, as this cluster's trust allows: it proves nothing about hardware")
			}
			c.CAPEM, c.ClusterID = got.CAPEM, got.ClusterID
			return c, c.Save(o.ContextPath)
		}
		if k := client.KindOf(err); k != client.Unavailable && k != client.Timeout {
			return c, err
		}
		last = err
		if !pause(ctx, o.Poll) {
			return c, fmt.Errorf("%w; last answer: %w", context.Cause(ctx), last)
		}
	}
}

// unbooted is why coordinators do not boot, as far as the platform shows it.
func unbooted(ctx context.Context, o Options, c client.Context) string {
	list, err := o.Cloud.List(ctx, c.CoordinatorAppID)
	if err != nil {
		return ""
	}
	var out []string
	for _, i := range list {
		if i.BootError != "" {
			out = append(out, bootProblem(i.Name, i.BootError).Error())
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// lead waits until a coordinator holds the lease.
func lead(ctx context.Context, o Options, c client.Context) error {
	o.Say("waiting for a leader")
	cl, err := client.Dial(c, o.Dial)
	if err != nil {
		return err
	}
	defer cl.Close()
	last := errors.New("no coordinator leads")
	for {
		attempt, cancel := context.WithTimeout(ctx, 15*time.Second)
		info, err := cl.Cluster(attempt)
		cancel()
		switch {
		case err == nil && info.GetLeader() != "":
			o.Say(fmt.Sprintf("%s leads, term %d", info.GetLeader(), info.GetTerm()))
			return nil
		case err != nil && client.KindOf(err) == client.Untrusted:
			return err
		case err != nil:
			// The token is made at its first use, which needs a Consul with a leader.
			last = err
		}
		if !pause(ctx, o.Poll) {
			return fmt.Errorf("the coordinators run but none leads yet: %w; last answer: %w", context.Cause(ctx), last)
		}
	}
}

// Delete removes the coordinators' CVMs, one after another, and waits until the
// platform has forgotten them.
func Delete(ctx context.Context, cloud Cloud, c client.Context, say func(string)) error {
	list, err := cloud.List(ctx, c.CoordinatorAppID)
	if errors.Is(err, platform.ErrNotFound) {
		list, err = nil, nil
	}
	if err != nil {
		return err
	}
	for _, i := range list {
		say("deleting " + i.Name)
		if err := cloud.Delete(ctx, i.VMUUID); err != nil {
			return err
		}
	}
	for {
		left, err := cloud.List(ctx, c.CoordinatorAppID)
		if errors.Is(err, platform.ErrNotFound) || err == nil && len(left) == 0 {
			return nil
		}
		if !pause(ctx, time.Second) {
			return fmt.Errorf("%d CVMs are still there: %w", len(left), errors.Join(context.Cause(ctx), err))
		}
	}
}

// RemoveContext forgets the cluster on this machine.
func RemoveContext(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove context: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func addHash(c client.Context, hash string) client.Context {
	if !slices.Contains(c.CoordinatorComposeHashes, hash) {
		c.CoordinatorComposeHashes = append(slices.Clone(c.CoordinatorComposeHashes), hash)
	}
	return c
}
