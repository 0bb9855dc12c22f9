package provider

import (
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"cadre.dev/client"
)

// connection is the cluster of one configured provider. It opens at the first use: parts that need
// no cluster work without one, and a cluster made in the same run is found after its creation. Safe
// for concurrent use.
type connection struct {
	settings settings

	mu     sync.Mutex
	client *client.Client   // guarded by mu; nil until it is opened
	turns  map[string]*turn // guarded by mu; one for each group
	// owners names the resource of each slot that was planned; guarded by mu.
	owners map[string]string
}

func newConnection(s settings) *connection {
	return &connection{settings: s, turns: map[string]*turn{}, owners: map[string]string{}}
}

// errNotYet: the provider's settings come from something that is not made yet.
var errNotYet = errors.New("the configuration of the provider is not known yet: it comes from something that this run makes or changes")

// open gives the client, the same one each time.
func (c *connection) open() (*client.Client, error) {
	if c == nil {
		return nil, errNotYet
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	known, err := c.context()
	if err != nil {
		return nil, err
	}
	c.client, err = client.Dial(known, client.Options{})
	return c.client, err
}

// use is open with a diagnostic; nil: it was added.
func (c *connection) use(diags *diag.Diagnostics) *client.Client {
	cl, err := c.open()
	if err != nil {
		noCluster(err, diags)
		return nil
	}
	return cl
}

// lookup is use for an earlier read value: while the cluster of the value is unknown, the value
// stays. nil: the reason was added.
func (c *connection) lookup(what string, diags *diag.Diagnostics) *client.Client {
	if _, err := c.open(); errors.Is(err, errNotYet) {
		diags.AddWarning(what+" is not looked at", "Its state is taken as it was: "+err.Error()+". The plan after this one looks again.")
		return nil
	}
	return c.use(diags)
}

func noCluster(err error, diags *diag.Diagnostics) {
	var failed *client.Error
	switch {
	case errors.Is(err, errNotYet):
		diags.AddError("No cluster to talk to yet", "To be read while planning, this needs a cluster, and "+err.Error()+
			".\n\nLet it wait for that: name the cadre_cluster in its depends_on, and it is read when that is applied.")
	case errors.As(err, &failed):
		addError(diags, "No cluster to talk to", err)
	default:
		diags.AddError("No cluster to talk to", err.Error()+"\n\nThe provider looks for a cluster as `cadre` does: set `context` in its block, or CADRE_CONTEXT.")
	}
}

// context returns the cluster's context from the configuration, then the environment, then the
// file.
func (c *connection) context() (client.Context, error) {
	s := c.settings
	if s.Context.IsUnknown() || s.ContextJSON.IsUnknown() || s.Token.IsUnknown() || s.Endpoint.IsUnknown() || s.CAPEM.IsUnknown() {
		return client.Context{}, errNotYet
	}
	if s.Context.ValueString() != "" && s.ContextJSON.ValueString() != "" {
		return client.Context{}, errors.New("context and context_json are both set: keep one")
	}
	known, err := c.load()
	if err != nil {
		return known, err
	}
	or := func(field *string, values ...string) {
		for _, v := range values {
			if v != "" {
				*field = v
				return
			}
		}
	}
	or(&known.Token, s.Token.ValueString(), os.Getenv("CADRE_TOKEN"))
	or(&known.Gateway.Address, s.Endpoint.ValueString(), os.Getenv("CADRE_ENDPOINT"))
	or(&known.CAPEM, s.CAPEM.ValueString())
	if known.Token == "" {
		return known, errors.New("token: the context has none: set it in the provider's block, or CADRE_TOKEN")
	}
	return known, nil
}

func (c *connection) load() (client.Context, error) {
	if text := c.settings.ContextJSON.ValueString(); text != "" {
		var known client.Context
		if err := json.Unmarshal([]byte(text), &known); err != nil {
			return known, errors.New("context_json: is not the text of a context file")
		}
		return known, nil
	}
	path, err := client.Path(c.settings.Context.ValueString())
	if err != nil {
		return client.Context{}, err
	}
	return client.LoadContext(path)
}

// turn orders changes of single slots of a group: Terraform makes them at the same time, and each
// change must find the other slots in place.
func (c *connection) turn(group string) *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[group] == nil {
		c.turns[group] = newTurn()
	}
	return c.turns[group]
}

// configured gives the connection of a request's provider data; nil before it is configured.
func configured(data any) *connection {
	c, _ := data.(*connection)
	return c
}
