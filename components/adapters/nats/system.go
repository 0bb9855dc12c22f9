package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"cadre.dev/adapters/serve"
)

// Subjects of the system account, and of the API of an account.
const (
	subjectJSZ             = "$SYS.REQ.SERVER.PING.JSZ"
	subjectMetaStepDown    = "$JS.API.META.LEADER.STEPDOWN"
	subjectServerRemove    = "$JS.API.SERVER.REMOVE"
	subjectStreamStepDown  = "$JS.API.STREAM.LEADER.STEPDOWN.%s"
	subjectConsumerSteDown = "$JS.API.CONSUMER.LEADER.STEPDOWN.%s.%s"
)

// connect logs in for one use. It opens no second connection later.
func (a *Adapter) connect(ctx context.Context, user, passwordFile string) (*nats.Conn, error) {
	password, err := os.ReadFile(passwordFile)
	if err != nil {
		return nil, fmt.Errorf("the password of %s: %w", user, err)
	}
	limit := time.Second
	if end, bounded := ctx.Deadline(); bounded {
		limit = min(limit, time.Until(end))
	}
	options := []nats.Option{
		nats.Name("cadre-nats-adapter"), nats.NoReconnect(), nats.Timeout(max(limit, time.Millisecond)),
		nats.UserInfo(user, strings.TrimRight(string(password), "\r\n")),
	}
	if a.tls != nil {
		options = append(options, nats.Secure(a.tls))
	}
	c, err := nats.Connect(a.cfg.Server, options...)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", user, err)
	}
	return c, nil
}

// system returns the connection of the system account, which all calls share: a login takes longer than
// the question. A lost connection is replaced at the next use.
func (a *Adapter) system(ctx context.Context) (*nats.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shared != nil && a.shared.IsConnected() {
		return a.shared, nil
	}
	c, err := a.connect(ctx, a.cfg.User, a.cfg.PasswordFile)
	if err != nil {
		return nil, err
	}
	if a.shared != nil {
		a.shared.Close()
	}
	a.shared = c
	return c, nil
}

// gather asks every server for all that it holds, and returns the answers of the meta group of the
// connected server by server name. That server's own answer is always among them: it alone names the
// members, and the groups that this server leads. An absent member costs the wait of idle. A user
// outside of the system account gets no answer, which is an error.
func (a *Adapter) gather(ctx context.Context) (map[string]jsz, error) {
	c, err := a.system(ctx)
	if err != nil {
		return nil, err
	}
	inbox := nats.NewInbox()
	answers, err := c.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask all servers: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := c.PublishRequest(subjectJSZ, inbox, []byte(`{"accounts":true,"streams":true,"consumer":true,"config":true}`)); err != nil {
		return nil, fmt.Errorf("ask all servers: %w", err)
	}
	return a.collect(c.ConnectedServerName(), func(briefly bool) ([]byte, error) {
		next, stop := ctx, context.CancelFunc(func() {})
		if briefly {
			next, stop = context.WithTimeout(ctx, idle)
		}
		defer stop()
		m, err := answers.NextMsgWithContext(next)
		if err != nil {
			return nil, err
		}
		return m.Data, nil
	})
}

// collect takes answers until the meta group of the server own is complete, or its next answer does not come within
// idle. next returns the next answer; briefly bounds its wait by idle, else by the end of the round.
func (a *Adapter) collect(own string, next func(briefly bool) ([]byte, error)) (map[string]jsz, error) {
	all := map[string]jsz{}
	for {
		group, missing := groupOf(own, all)
		if group != nil && missing == 0 {
			return group, wholes(group)
		}
		text, err := next(group != nil)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && group != nil:
			return group, wholes(group) // a server that is away
		case err != nil && len(all) > 0:
			return nil, fmt.Errorf("the server %s itself does not answer at %s: %w", own, subjectJSZ, err)
		case err != nil:
			return nil, fmt.Errorf("no server answers user %s at %s: the server hangs, or the user is not of the system account: %w", a.cfg.User, subjectJSZ, err)
		}
		var one answer
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("the answer of a server is not the expected JSON: %w", err)
		}
		if one.Data != nil { // nil: a server without JetStream
			all[one.Server.Name] = *one.Data
		}
	}
}

// groupOf returns the answers of the meta group that the server own belongs to, and the number of its
// members without an answer. Servers of another meta group answer the same question. The group is nil
// until own answers.
func groupOf(own string, all map[string]jsz) (group map[string]jsz, missing int) {
	mine, answered := all[own]
	if !answered {
		return nil, 0
	}
	group = map[string]jsz{own: mine}
	if mine.Meta == nil {
		return group, 0
	}
	for _, p := range mine.Meta.Replicas {
		found := false
		for server, answer := range all {
			if server == p.Name || idOf(server) == p.ID {
				group[server], found = answer, true
			}
		}
		if !found {
			missing++
		}
	}
	return group, missing
}

// wholes fails if an answer leaves accounts out.
func wholes(group map[string]jsz) error {
	for _, server := range slices.Sorted(maps.Keys(group)) {
		if err := group[server].whole(server); err != nil {
			return err
		}
	}
	return nil
}

// Codes of errors of the JetStream API.
const (
	errNotMember = 10044
	errInflight  = 10202
)

// order makes one call that changes something. A failure that is no answer leaves the effect unknown.
func order(ctx context.Context, c *nats.Conn, subject string, request any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	m, err := c.RequestWithContext(ctx, subject, text)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	var d done
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return fmt.Errorf("%s: the answer is not the expected JSON: %w", subject, err)
	}
	switch {
	case d.Error == nil && !d.Success:
		return fmt.Errorf("%s: the answer reports no success", subject)
	case d.Error != nil && d.Error.ErrCode == errInflight:
		return fmt.Errorf("%w: %s: %s", serve.ErrBusy, subject, d.Error.Description)
	case d.Error != nil:
		return fmt.Errorf("%s: %s (%d)", subject, d.Error.Description, d.Error.ErrCode)
	}
	return nil
}
