package kafka

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Values of Config.Roles, as in Kafka's process.roles.
const (
	RolesBoth       = "broker,controller"
	RolesBroker     = "broker"
	RolesController = "controller"
)

// groupNodes is how many node ids a group has from its NodeBase on.
const groupNodes = 1000

// Config describes the node of this slot.
type Config struct {
	// Slot is this slot's name: its group's, a dash and the ordinal.
	Slot string
	// Roles of the group's nodes.
	Roles string
	// NodeBase is the node id of the group's ordinal 0. Groups of one Kafka cluster are 1,000 apart.
	NodeBase int
	// Broker and Controller are the addresses (host:port) of the node's own listeners. A node without
	// the role needs none.
	Broker, Controller string
	// Jars is the folder with Kafka's jars, whose names have the version; empty: not known.
	Jars string
	// AcceptSingle lets a node stop although partitions with too few replicas for their
	// min.insync.replicas refuse writes meanwhile.
	AcceptSingle bool
}

func (c Config) check() error {
	var errs []error
	if group, ordinal, ok := cutLast(c.Slot); !ok || group == "" || ordinal < 0 {
		errs = append(errs, fmt.Errorf("slot: %q is no name of a slot such as kafka-0", c.Slot))
	}
	if c.Roles != RolesBoth && c.Roles != RolesBroker && c.Roles != RolesController {
		errs = append(errs, fmt.Errorf("roles: %q is none of %s, %s and %s", c.Roles, RolesBoth, RolesBroker, RolesController))
	}
	if c.NodeBase < 0 || c.NodeBase > math.MaxInt32-groupNodes {
		errs = append(errs, fmt.Errorf("node base: %d is not between 0 and %d", c.NodeBase, math.MaxInt32-groupNodes))
	}
	for _, a := range []struct{ name, is, without string }{{"broker address", c.Broker, RolesController}, {"controller address", c.Controller, RolesBroker}} {
		if _, _, err := net.SplitHostPort(a.is); err != nil && c.Roles != a.without {
			errs = append(errs, fmt.Errorf("%s: %q is not host:port", a.name, a.is))
		}
	}
	return errors.Join(errs...)
}

// names maps node ids to slots and back.
type names struct {
	group string
	base  int32
}

// of is the name of a node: its slot, or for a node of another group its id.
func (n names) of(node int32) string {
	if !n.own(node) {
		return "node-" + strconv.Itoa(int(node))
	}
	return n.group + "-" + strconv.Itoa(int(node-n.base))
}

// own: the node is one of this group.
func (n names) own(node int32) bool { return node >= n.base && node-n.base < groupNodes }

// node is the id of a slot of this group.
func (n names) node(slot string) (int32, bool) {
	group, ordinal, ok := cutLast(slot)
	if !ok || group != n.group || ordinal < 0 || ordinal >= groupNodes {
		return 0, false
	}
	return n.base + int32(ordinal), true
}

// cutLast splits "kafka-0" at its last dash.
func cutLast(slot string) (group string, ordinal int, ok bool) {
	at := strings.LastIndexByte(slot, '-')
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(slot[at+1:])
	return slot[:at], n, err == nil
}

// versionOf reads Kafka's version from the name of its jar.
func versionOf(jars string) string {
	found, err := filepath.Glob(filepath.Join(jars, "kafka_2.1*-*.jar"))
	if jars == "" || err != nil || len(found) != 1 {
		return ""
	}
	_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(found[0]), ".jar"), "-")
	return version
}
