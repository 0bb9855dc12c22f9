package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

// gather asks every server for all that it holds, and returns the answers by server name. An absent
// server costs the wait of idle. A user outside of the system account gets no answer, which is an error.
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
	all := map[string]jsz{}
	for size := 1; len(all) < size; {
		next, stop := ctx, context.CancelFunc(func() {})
		if len(all) > 0 {
			next, stop = context.WithTimeout(ctx, idle)
		}
		m, err := answers.NextMsgWithContext(next)
		stop()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && len(all) > 0:
			return all, nil // a server that is away
		case err != nil:
			return nil, fmt.Errorf("no server answers user %s at %s: the server hangs, or the user is not of the system account: %w", a.cfg.User, subjectJSZ, err)
		}
		var one answer
		if err := json.Unmarshal(m.Data, &one); err != nil {
			return nil, fmt.Errorf("the answer of a server is not the expected JSON: %w", err)
		}
		if one.Data == nil {
			continue // a server without JetStream
		}
		if err := one.Data.whole(one.Server.Name); err != nil {
			return nil, err
		}
		all[one.Server.Name] = *one.Data
		if one.Data.Meta != nil {
			size = max(size, one.Data.Meta.Size)
		}
	}
	return all, nil
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
