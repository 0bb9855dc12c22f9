package phala

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

const (
	pageSize = 100
	maxPages = 200
)

// List implements platform.Platform. The app's CVMs come in one reply; the
// workspace's come in pages, and a list that shrank or grew under the reader is
// read again rather than returned with a hole.
func (c *Client) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	var rows []cvm
	var err error
	if appID != "" {
		rows, err = c.listApp(ctx, words.ID(appID))
	} else {
		rows, err = c.listWorkspace(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.nameSizes(ctx, rows)
	out := make([]platform.Instance, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.instance())
	}
	slices.SortFunc(out, func(a, b platform.Instance) int {
		return strings.Compare(a.Name+"\x00"+a.VMUUID, b.Name+"\x00"+b.VMUUID)
	})
	c.addBootErrors(ctx, out)
	return out, nil
}

func (c *Client) listApp(ctx context.Context, appID string) ([]cvm, error) {
	var raw json.RawMessage
	r := call{doing: "list cvms of app " + appID, method: http.MethodGet,
		path: "/apps/" + url.PathEscape(appID) + "/cvms", into: &raw, limit: maxListReply}
	if err := c.read(ctx, r); err != nil {
		return nil, err
	}
	// null would decode to an empty list; R11 wants a list that is one.
	var rows []cvm
	if err := json.Unmarshal(raw, &rows); err != nil || rows == nil {
		return nil, fmt.Errorf("%s: the platform's reply is not an array", r.doing)
	}
	return rows, nil
}

func (c *Client) listWorkspace(ctx context.Context) ([]cvm, error) {
	const rounds = 3
	for range rounds {
		rows, whole, err := c.listPages(ctx)
		if err != nil || whole {
			return rows, err
		}
	}
	return nil, errors.New("list cvms of the workspace: the list kept changing while it was read: try again")
}

func (c *Client) listPages(ctx context.Context) (rows []cvm, complete bool, err error) {
	seen := map[string]bool{}
	for page := 1; page <= maxPages; page++ {
		var reply struct {
			Items *[]cvm `json:"items"`
			Total whole  `json:"total"`
			Pages whole  `json:"pages"`
		}
		r := call{doing: "list cvms of the workspace", method: http.MethodGet,
			path: fmt.Sprintf("/cvms/paginated?page=%d&page_size=%d", page, pageSize), into: &reply, limit: maxListReply}
		if err := c.read(ctx, r); err != nil {
			return nil, false, err
		}
		if reply.Items == nil {
			return nil, false, fmt.Errorf("%s: the platform's reply has no items", r.doing)
		}
		for _, row := range *reply.Items {
			if key := string(row.ID + "|" + row.VMUUID + "|" + row.Name); !seen[key] {
				seen[key] = true
				rows = append(rows, row)
			}
		}
		if len(*reply.Items) == 0 || page >= int(reply.Pages) {
			return rows, len(rows) >= int(reply.Total), nil
		}
	}
	return nil, false, fmt.Errorf("list cvms of the workspace: more than %d pages", maxPages)
}

// Describe implements platform.Platform. It takes a vm uuid, a platform id or a name.
func (c *Client) Describe(ctx context.Context, id string) (platform.Instance, error) {
	path, err := cvmPath(id, "")
	if err != nil {
		return platform.Instance{}, err
	}
	var row cvm
	if err := c.read(ctx, call{doing: "describe cvm " + id, method: http.MethodGet, path: path, into: &row}); err != nil {
		return platform.Instance{}, err
	}
	rows := []cvm{row}
	c.nameSizes(ctx, rows)
	found := []platform.Instance{rows[0].instance()}
	c.addBootErrors(ctx, found)
	return found[0], nil
}

// addBootErrors asks for the boot errors, which no listing carries. A CVM that runs may have
// one: its containers did not start, because an image could not be pulled for example. Boot
// errors are hints: a server without the call, or a failed call, changes nothing.
func (c *Client) addBootErrors(ctx context.Context, list []platform.Instance) {
	asked := map[string]int{}
	uuids := []string{}
	for i, inst := range list {
		if inst.VMUUID != "" {
			asked[inst.VMUUID] = i
			uuids = append(uuids, inst.VMUUID)
		}
	}
	if len(uuids) == 0 || c.noBatch.Load() {
		return
	}
	var reply map[string]object[struct {
		BootError text `json:"boot_error"`
	}]
	err := c.once(ctx, call{doing: "read boot states", method: http.MethodPost, path: "/status/batch",
		body: map[string]any{"vm_uuids": uuids}, into: &reply, limit: maxListReply})
	var answer *Error
	if errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed) {
		c.noBatch.Store(true)
	}
	if err != nil {
		c.log.Debug("boot states not read", "error", err)
		return
	}
	for id, state := range reply {
		if i, ok := asked[dashedUUID(id)]; ok {
			list[i].BootError = words.OneLine(string(state.V.BootError), maxMessage)
		}
	}
}

// Nodes implements platform.Platform.
func (c *Client) Nodes(ctx context.Context) ([]platform.Node, error) {
	var reply struct {
		Nodes *[]struct {
			TeepodID text  `json:"teepod_id"`
			Name     text  `json:"name"`
			Region   text  `json:"region_identifier"`
			Slots    whole `json:"remaining_cvm_slots"`
			Images   []struct {
				Name text `json:"name"`
			} `json:"images"`
		} `json:"nodes"`
	}
	r := call{doing: "list nodes", method: http.MethodGet, path: "/teepods/available", into: &reply, limit: maxListReply}
	if err := c.read(ctx, r); err != nil {
		return nil, err
	}
	if reply.Nodes == nil {
		return nil, fmt.Errorf("%s: the platform's reply has no nodes", r.doing)
	}
	out := []platform.Node{}
	for _, n := range *reply.Nodes {
		node := platform.Node{ID: string(n.TeepodID), Name: string(n.Name), Region: string(n.Region), CVMSlots: int(n.Slots)}
		for _, im := range n.Images {
			node.Images = append(node.Images, string(im.Name))
		}
		out = append(out, node)
	}
	return out, nil
}

// NextAppID allots an application id with the nonce that claims it. Both go into platform.Template,
// so that a measured compose file can contain the id before the app exists.
func (c *Client) NextAppID(ctx context.Context) (appID, nonce string, err error) {
	var reply struct {
		AppIDs []struct {
			AppID text `json:"app_id"`
			Nonce text `json:"nonce"`
		} `json:"app_ids"`
	}
	r := call{doing: "allot an app id", method: http.MethodGet, path: "/kms/phala/next_app_id", into: &reply}
	if err := c.read(ctx, r); err != nil {
		return "", "", err
	}
	if len(reply.AppIDs) == 0 || !hex40Form.MatchString(words.ID(string(reply.AppIDs[0].AppID))) {
		return "", "", fmt.Errorf("%s: the platform's reply has no usable app id", r.doing)
	}
	return words.ID(string(reply.AppIDs[0].AppID)), string(reply.AppIDs[0].Nonce), nil
}

// cvmPath is the path of one CVM; an empty id would name the collection.
func cvmPath(id, below string) (string, error) {
	segment := pathID(id)
	if segment == "" || segment == "." || segment == ".." {
		return "", fmt.Errorf("cvm id is empty: %w", platform.ErrRefused)
	}
	return "/cvms/" + url.PathEscape(segment) + below, nil
}
