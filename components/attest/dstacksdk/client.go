package dstacksdk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
)

const (
	// callTimeout bounds one call. Quotes are made one at a time for the whole
	// CVM, so a busy agent may need seconds.
	callTimeout   = 30 * time.Second
	maxReportData = 64
	keySize       = 32
)

// Client asks the guest agent of this CVM. It is safe for concurrent use; ctx
// bounds each call, and so do 30 s.
type Client struct {
	// constant after New
	sdk       *dstack.DstackClient
	transport *http.Transport
}

// Error is an answer of the agent that is not a result.
type Error struct {
	Method string
	// Status is the HTTP status; the agent uses 400 for every error of its own.
	Status int
	// Message has at most 512 bytes.
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// New returns a client of the agent behind the unix socket; "" looks in the usual places at each
// connection. New always passes the endpoint to the SDK: otherwise the SDK uses the address in the
// environment, which the host writes.
func New(socket string) *Client {
	return &Client{
		sdk:       dstack.NewDstackClient(dstack.WithEndpoint(endpoint), dstack.WithLogger(slog.New(slog.DiscardHandler))),
		transport: newTransport(socket),
	}
}

// Close ends the idle connections. The client can still be used.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Quote is a quote with its event log and report data.
type Quote struct {
	Quote []byte
	// EventLog and VMConfig are JSON texts, exactly as the agent gave them.
	EventLog, VMConfig string
}

// Quote quotes reportData: at most 64 bytes, padded with zeros on the right. A
// reply that names other report data is refused.
func (c *Client) Quote(ctx context.Context, reportData []byte) (Quote, error) {
	if len(reportData) > maxReportData {
		return Quote{}, fmt.Errorf("guest agent GetQuote: report data has %d bytes, the limit is %d", len(reportData), maxReportData)
	}
	reply, err := call(ctx, c, "GetQuote", func(ctx context.Context) (*dstack.GetQuoteResponse, error) {
		return c.sdk.GetQuote(ctx, reportData)
	})
	if err != nil {
		return Quote{}, err
	}
	quote, err := reply.DecodeQuote()
	if err != nil || len(quote) == 0 {
		return Quote{}, errors.New("guest agent GetQuote: the quote is not hex")
	}
	var padded [maxReportData]byte
	copy(padded[:], reportData)
	if reply.ReportData != "" && reply.ReportData != hex.EncodeToString(padded[:]) {
		return Quote{}, errors.New("guest agent GetQuote: the reply is for other report data")
	}
	return Quote{Quote: quote, EventLog: reply.EventLog, VMConfig: reply.VmConfig}, nil
}

// Key is a key of the app and the signatures that vouch for it.
type Key struct {
	// Key has 32 bytes, the same on every instance of the app.
	Key []byte
	// Chain is the app key's signature over this key's public half, then the key
	// service's over the app key: 65 bytes each. Not checked here.
	Chain [][]byte
}

// Key returns the key of path. The request names no algorithm: the bytes are the same for all of
// them. For any other than the first the SDK requests the agent's version, which agents before
// 0.5.7 do not report.
func (c *Client) Key(ctx context.Context, path, purpose string) (Key, error) {
	reply, err := call(ctx, c, "GetKey", func(ctx context.Context) (*dstack.GetKeyResponse, error) {
		return c.sdk.GetKey(ctx, path, purpose, "")
	})
	if err != nil {
		return Key{}, err
	}
	key, err := reply.DecodeKey()
	if err != nil || len(key) != keySize {
		return Key{}, fmt.Errorf("guest agent GetKey: the key is not %d bytes of hex", keySize)
	}
	chain, err := reply.DecodeSignatureChain()
	if err != nil {
		return Key{}, errors.New("guest agent GetKey: the signature chain is not hex")
	}
	return Key{Key: key, Chain: chain}, nil
}

// Info is the agent's description of its CVM; unsigned.
type Info struct {
	AppID, InstanceID, ComposeHash, AppName, OSImageHash string
	// TCBInfo is a JSON document in a text. The SDK's reader of it wants every field right, the
	// whole event log too, so callers read only the fields they need.
	TCBInfo string
}

// Info describes the CVM. The agent makes a quote for each answer.
func (c *Client) Info(ctx context.Context) (Info, error) {
	reply, err := call(ctx, c, "Info", c.sdk.Info)
	if err != nil {
		return Info{}, err
	}
	return Info{
		AppID: reply.AppID, InstanceID: reply.InstanceID, ComposeHash: reply.ComposeHash,
		AppName: reply.AppName, OSImageHash: reply.OsImageHash, TCBInfo: reply.TcbInfo,
	}, nil
}

// Version is the agent's release. Agents before 0.5.7 do not know the call and
// answer an *Error.
func (c *Client) Version(ctx context.Context) (string, error) {
	reply, err := call(ctx, c, "Version", c.sdk.GetVersion)
	if err != nil {
		return "", err
	}
	return reply.Version, nil
}

// call runs one call of the SDK over c's transport and names method in its error.
func call[T any](ctx context.Context, c *Client, method string, ask func(context.Context) (*T, error)) (*T, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("no answer in %s", callTimeout))
	defer cancel()
	reply, err := ask(context.WithValue(ctx, roundTripKey{}, &roundTrip{over: c.transport, shape: new(T)}))
	if err == nil {
		return reply, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	// The address in the SDK's error is not where the call went.
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return nil, fmt.Errorf("guest agent %s: %w", method, err)
}
