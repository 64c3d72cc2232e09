/*
 * The limit: what the kernel itself costs. It accepts N connections, answers each request with a chunked 200, and then does
 * nothing but `send` the same bytes to every socket, one send per socket and pass, with as many events per send as requested.
 * No etcd, no selection, no state per watcher: nothing that fans out over TCP in user space with one write per socket can be cheaper.
 *
 *   run RATE COUNT MS EVENTS      passes at RATE events/s (0: as fast as sockets take them), EVENTS in each send
 *
 * send-loop CONNECTIONS CHUNK MARK: CHUNK is a file with one framed event, MARK the offset of its marker.
 */
#include "common.h"

static int *sockets;
static int expected, have;

static void accept_all(int listener) {
  static const char answer[] =
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  char request[8192];
  while (have < expected) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) die("accept");
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    size_t length = 0;
    while (length < sizeof request - 1) {
      ssize_t n = recv(fd, request + length, sizeof request - 1 - length, 0);
      if (n <= 0) die("request");
      length += (size_t)n;
      if (memmem(request, length, "\r\n\r\n", 4)) break;
    }
    if (send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0) die("send");
    sockets[have++] = fd;
  }
  printf("{\"event\":\"ready\"}\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  raise_file_limit();
  expected = atoi(argv[1]);
  sockets = calloc((size_t)expected, sizeof *sockets);
  static char one_event[1 << 16];
  FILE *file = fopen(argv[2], "rb");
  if (!file) die(argv[2]);
  size_t length = fread(one_event, 1, sizeof one_event, file), mark = strtoull(argv[3], NULL, 10);
  fclose(file);

  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 4096)) die("listen");
  getsockname(listener, (struct sockaddr *)&at, &size);
  printf("{\"event\":\"listening\",\"port\":%d}\n", ntohs(at.sin_port));
  fflush(stdout);
  accept_all(listener);

  char line[256], *many = NULL;
  uint64_t sequence = 0;
  while (fgets(line, sizeof line, stdin)) {
    double rate;
    unsigned long long count, ms, events;
    if (sscanf(line, "run %lf %llu %llu %llu", &rate, &count, &ms, &events) != 4) continue;
    many = realloc(many, length * events);
    for (uint64_t e = 0; e < events; e++) memcpy(many + e * length, one_event, length);
    uint64_t first = sequence, begin = now_ns(), end = begin + ms * 1000000ull;
    while (sequence - first + events <= count) {
      uint64_t now = now_ns();
      if (rate > 0) {
        uint64_t due = begin + (uint64_t)((double)(sequence - first) * 1e9 / rate);
        if (now < due) {
          struct timespec pause = {.tv_sec = (time_t)((due - now) / 1000000000ull),
                                   .tv_nsec = (long)((due - now) % 1000000000ull)};
          nanosleep(&pause, NULL);
          now = now_ns();
        }
      }
      if (now >= end) break;
      for (uint64_t e = 0; e < events; e++) set_mark(many + e * length + mark, sequence + e, now);
      for (int i = 0; i < expected; i++) {
        size_t done = 0; /* sockets block: waiting for a full one costs no CPU */
        while (done < length * events) {
          ssize_t n = send(sockets[i], many + done, length * events - done, MSG_NOSIGNAL);
          if (n <= 0) die("send");
          done += (size_t)n;
        }
      }
      sequence += events;
    }
    printf("{\"event\":\"ran\",\"first\":%llu,\"next\":%llu,\"failed\":0,\"seconds\":%.6f}\n", (unsigned long long)first,
           (unsigned long long)sequence, (double)(now_ns() - begin) / 1e9);
    fflush(stdout);
  }
  return 0;
}
