// Package fabric is the network of one local cloud, in network namespaces that have no name and no
// mount: when the last process and file descriptor goes, the kernel removes them, however the
// daemon ended.
//
//	  host netns                fabric netns                   CVM netns
//	┌────────────┐   setns   ┌──────────────────────┐  veth  ┌───────────────┐
//	│ the daemon │──────────►│ lo 10.213.0.1/32     │◄──────►│ eth0 10.213…  │
//	│            │  sockets  │   :443 gateway :80 API│  /30   │ lo 127.0.0.1  │
//	└────────────┘           │ no forwarding        │        └───────────────┘
//	                         └──────────────────────┘
//
// The daemon lives in the host namespace and opens sockets in the fabric by entering it on a locked
// thread; a socket stays in its namespace. A CVM has a route to the fabric address and to nothing
// else.
//
// A CVM's network can set a NAT. Then a box with a public address (198.18.0.0/15) connects its
// cable, the CVM has a default route, and the fabric forwards between boxes, never to or from a
// private address. Packets of the CVM to the fabric address come from its public address. Packets
// of the fabric to the CVM's private address pass, so the gateway works as before. The fabric is a
// natlab.Lab's internet.
package fabric
