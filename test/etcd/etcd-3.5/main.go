// etcd itself and, as its subcommand `snapshot`, the offline half of etcdutl: what a distribution ships as two programs.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "snapshot" {
		etcdmain.Main(os.Args)
		return
	}
	root := &cobra.Command{Use: "etcd", SilenceUsage: true}
	root.AddCommand(etcdutl.NewSnapshotCommand())
	if root.Execute() != nil {
		os.Exit(1)
	}
}
