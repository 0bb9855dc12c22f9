// Package fabric is the network of one local cloud, in network namespaces that
// have no name and no mount: when the last process and file descriptor goes, the
// kernel removes them, however the daemon ended.
//
//	  host netns                fabric netns                   CVM netns
//	┌────────────┐   setns   ┌──────────────────────┐  veth  ┌───────────────┐
//	│ the daemon │──────────►│ lo 10.213.0.1/32     │◄──────►│ eth0 10.213…  │
//	│            │  sockets  │   :443 gateway :80 API│  /30   │ lo 127.0.0.1  │
//	└────────────┘           │ no forwarding        │        └───────────────┘
//	                         └──────────────────────┘
//
// The daemon lives in the host namespace and opens sockets in the fabric by
// entering it on a locked thread; a socket stays where it was made. A CVM has a
// route to the fabric address and to nothing else.
package fabric
