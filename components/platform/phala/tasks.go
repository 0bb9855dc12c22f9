package phala

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

var _ platform.Recorder = (*Client)(nil)

// maxTasks bounds the operations that Tasks reads, the newest ones.
const maxTasks = 20

// clockStep is the resolution of the Date header.
const clockStep = time.Second

// Tasks implements platform.Recorder by GET /cvms/{cvm}/operations, whose shape is in the
// platform's public description of its API. The server's own clock, the Date of its answer, decides
// which operations are recent: the local clock may differ.
func (c *Client) Tasks(ctx context.Context, vmUUID string, since time.Duration) ([]platform.Task, error) {
	path, err := cvmPath(vmUUID, "/operations?limit="+strconv.Itoa(maxTasks))
	if err != nil {
		return nil, err
	}
	var reply struct {
		Items []struct {
			Correlation text `json:"correlation_id"`
			Kind        text `json:"operation_type"`
			Status      text `json:"status"`
			Error       text `json:"error_message"`
			StartedAt   text `json:"started_at"`
			ComposeHash text `json:"compose_hash"`
		} `json:"items"`
	}
	var date time.Time
	err = c.once(ctx, call{doing: "list operations of cvm " + vmUUID, method: http.MethodGet, path: path, into: &reply, date: &date})
	var answer *Error
	switch {
	case errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed):
		return nil, nil // an older server, or the CVM is gone, which the listing shows
	case err != nil:
		return nil, err
	case date.IsZero():
		return nil, nil
	}
	from := date.Add(-since - clockStep)
	var out []platform.Task
	for _, row := range reply.Items[:min(len(reply.Items), maxTasks)] {
		at := stamp(string(row.StartedAt))
		if row.Correlation == "" || at.IsZero() || at.Before(from) {
			continue
		}
		out = append(out, platform.Task{
			Correlation: string(row.Correlation), Kind: strings.ToLower(words.OneLine(string(row.Kind), 80)), State: platform.TaskState(strings.ToLower(string(row.Status))),
			Error: words.OneLine(string(row.Error), maxMessage), ComposeHash: words.ID(string(row.ComposeHash)),
		})
	}
	return out, nil
}
