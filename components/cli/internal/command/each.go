package command

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"cadre.dev/client"
	"cadre.dev/platform"
)

// each is one coordinator that a command asks on its own.
type each struct {
	// name is the CVM's without the cluster's: the slot for CVMs that `cadre cluster create` made.
	name string
	cvm  platform.Instance
	// client asks it; nil: err is why it cannot.
	client *client.Client
	err    error
}

// everyCoordinator returns a client for each coordinator's CVM that the platform lists. Without a
// list it returns the coordinator to which the gateway leads; unlisted is then why, nil for a
// context without a platform. The caller closes the clients with closeAll.
func (a *App) everyCoordinator(ctx context.Context, c client.Context) (list []each, unlisted error) {
	cvms, unlisted := coordinators(ctx, c)
	if len(cvms) == 0 {
		if unlisted == nil && c.Platform.Driver != "" {
			unlisted = fmt.Errorf("the platform lists no CVM of app %s", c.CoordinatorAppID)
		}
		one := each{name: "coordinator"}
		one.client, one.err = client.Dial(c, a.Dial)
		return []each{one}, unlisted
	}
	for _, cvm := range cvms {
		one := each{name: cmp.Or(strings.TrimPrefix(cvm.Name, c.Cluster+"-"), cvm.VMUUID), cvm: cvm}
		if !cvm.Running() || cvm.InstanceID == "" {
			one.err = fmt.Errorf("the platform reports CVM %s as %s", cvm.Name, cmp.Or(cvm.Status, "unknown"))
		} else {
			opts := a.Dial
			opts.Instance = cvm.InstanceID
			one.client, one.err = client.Dial(c, opts)
		}
		list = append(list, one)
	}
	return list, nil
}

func closeAll(list []each) {
	for _, one := range list {
		if one.client != nil {
			_ = one.client.Close()
		}
	}
}
