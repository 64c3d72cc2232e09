import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;

/**
 * Makes the calls of jetcd in etcd's own API, and prints what each gave. Then it watches, and for each line of input
 * prints the events so far.
 */
class Follow {
  static ByteSequence bytes(String text) {
    return ByteSequence.from(text.getBytes());
  }

  static void print(String text) {
    System.out.println('"' + text + '"');
  }

  public static void main(String[] args) throws Exception {
    try (Client client = Client.builder().endpoints(args[0]).build()) {
      var kv = client.getKVClient();
      var all = GetOption.builder().isPrefix(true).withSortField(GetOption.SortTarget.KEY)
          .withSortOrder(GetOption.SortOrder.DESCEND).build();
      List<String> seen = new ArrayList<>();
      kv.put(bytes("/flags/a"), bytes("1")).get();
      kv.put(bytes("/flags/b"), bytes("2")).get();
      var answer = kv.get(bytes("/flags/"), all).get();
      seen.add("get " + answer.getKvs().stream().map((one) -> one.getKey() + "=" + one.getValue() + "@" + one.getVersion())
          .collect(Collectors.joining(",")) + " of " + answer.getCount());
      var txn = kv.txn().If(new Cmp(bytes("/flags/a"), Cmp.Op.EQUAL, CmpTarget.value(bytes("1"))))
          .Then(Op.put(bytes("/flags/a"), bytes("3"), PutOption.DEFAULT)).commit().get();
      seen.add("txn " + txn.isSucceeded());
      var lease = client.getLeaseClient();
      long id = lease.grant(30).get().getID();
      kv.put(bytes("/flags/leased"), bytes("x"), PutOption.builder().withLeaseId(id).build()).get();
      seen.add("lease " + lease.keepAliveOnce(id).get().getTTL());
      lease.revoke(id).get();
      seen.add("revoked " + kv.get(bytes("/flags/leased")).get().getCount());
      seen.add("deleted " + kv.delete(bytes("/flags/"), DeleteOption.builder().isPrefix(true).build()).get().getDeleted());
      List<String> events = Collections.synchronizedList(new ArrayList<>());
      var option = WatchOption.builder().isPrefix(true).withPrevKV(true).withCreateNotify(true).build();
      var created = new CountDownLatch(1);
      client.getWatchClient().watch(bytes("/flags/"), option, (response) -> {
        if (response.isCreatedNotify()) created.countDown();
        for (WatchEvent event : response.getEvents())
          events.add(event.getEventType() + " " + event.getKeyValue().getKey() + "=" + event.getKeyValue().getValue()
              + " was " + event.getPrevKV().getValue());
      });
      created.await();
      print(String.join("; ", seen));
      var lines = new BufferedReader(new InputStreamReader(System.in));
      while (lines.readLine() != null) print(String.join("; ", events));
    }
    System.exit(0);
  }
}
