/*
 * The writing side: puts to etcd over one gRPC connection, each object stamped just before its put is sent.
 *
 * The objects come from a file (u32 length + key, u32 length + value, u32 offset of the marker, little endian, repeated)
 * and are written round and round (an entry whose value has the length 2^32 - 1 and no mark deletes the key); the sequence goes on from run to run. A saturated run (rate 0) keeps CONCURRENCY puts in flight, and,
 * when a window is given, writes no further than WINDOW events ahead of what the watchers have received on average
 * (read from the file they share), so that "saturated" means the fan-out is the limit, not an ever longer queue.
 *
 *   run RATE COUNT MS CONCURRENCY WINDOW WATCHERS    RATE 0: as fast as they are taken; ends after COUNT puts or MS
 *                                                    milliseconds, whichever is first, and when all are answered
 */
#include "common.h"

typedef struct {
  uint32_t length, mark;
  char *message; /* the whole gRPC message: 5 bytes, then PutRequest or DeleteRangeRequest */
  int is_deletion;
} object;

static int fd, epoll_fd;
static object *objects;
static size_t object_count;
static bytes out, control;
static uint64_t sequence, in_flight, answered, failed, consumed;
static int64_t window = 65535; /* what the server lets us send on the connection */
static uint32_t next_stream = 1;
static volatile uint64_t *progress;
static uint8_t frame[9], frame_have;
static uint32_t frame_left;
static uint64_t asked_ns[1 << 16];
static uint8_t got_data[1 << 16];
static histogram put_delays;

static void append_varint(bytes *b, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)(value & 127) | (value > 127 ? 128 : 0);
    append(b, &byte, 1);
  } while (value >>= 7);
}

static void load_objects(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) die(path);
  uint32_t length;
  while (fread(&length, 4, 1, file) == 1) {
    bytes request = {0};
    char *text = malloc(length);
    if (fread(text, 1, length, file) != length) die("objects file");
    append(&request, "\x0a", 1); /* key = 1, of both requests */
    append_varint(&request, length);
    append(&request, text, length);
    free(text);
    uint32_t mark = 0;
    if (fread(&length, 4, 1, file) != 1) die("objects file");
    int is_deletion = length == UINT32_MAX;
    if (!is_deletion) {
      text = malloc(length);
      if (fread(text, 1, length, file) != length || fread(&mark, 4, 1, file) != 1) die("objects file");
      append(&request, "\x12", 1); /* PutRequest.value = 2 */
      append_varint(&request, length);
      mark += (uint32_t)request.length;
      append(&request, text, length);
      free(text);
    }
    uint8_t head[5] = {0, (uint8_t)(request.length >> 24), (uint8_t)(request.length >> 16),
                       (uint8_t)(request.length >> 8), (uint8_t)request.length};
    objects = realloc(objects, (object_count + 1) * sizeof *objects);
    object *o = &objects[object_count++];
    o->length = (uint32_t)request.length + 5;
    o->mark = mark + 5;
    o->is_deletion = is_deletion;
    o->message = malloc(o->length);
    memcpy(o->message, head, 5);
    memcpy(o->message + 5, request.at, request.length);
    free(request.at);
  }
  fclose(file);
  if (!object_count) die("no objects");
}

static void flush_out(void) {
  size_t done = 0;
  while (done < out.length) {
    ssize_t n = send(fd, out.at + done, out.length - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) die("etcd closed the writer's connection");
    done += (size_t)n;
  }
  memmove(out.at, out.at + done, out.length - done);
  out.length -= done;
  struct epoll_event want = {.events = EPOLLIN | (out.length ? EPOLLOUT : 0), .data.fd = fd};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &want);
}

static void put_next(void) {
  object *o = &objects[sequence % object_count];
  static bytes blocks[2];
  bytes *block = &blocks[o->is_deletion];
  if (!block->length) {
    hpack_header(block, ":method", "POST");
    hpack_header(block, ":scheme", "http");
    hpack_header(block, ":path", o->is_deletion ? "/etcdserverpb.KV/DeleteRange" : "/etcdserverpb.KV/Put");
    hpack_header(block, ":authority", "localhost");
    hpack_header(block, "content-type", "application/grpc");
    hpack_header(block, "te", "trailers");
  }
  h2_frame(&out, (uint32_t)block->length, H2_HEADERS, H2_END_HEADERS, next_stream);
  append(&out, block->at, block->length);
  h2_frame(&out, o->length, H2_DATA, H2_END_STREAM, next_stream);
  uint64_t at = now_ns();
  if (!o->is_deletion) set_mark(o->message + o->mark, sequence, at);
  append(&out, o->message, o->length);
  asked_ns[(next_stream >> 1) & 65535] = at;
  got_data[(next_stream >> 1) & 65535] = 0;
  window -= o->length;
  next_stream += 2;
  sequence++;
  in_flight++;
}

static void take_frame(void) {
  uint8_t type = frame[3], flags = frame[4];
  uint32_t stream = ((uint32_t)frame[5] << 24 | (uint32_t)frame[6] << 16 | (uint32_t)frame[7] << 8 | frame[8]) & 0x7fffffff;
  uint32_t slot = (stream >> 1) & 65535;
  if (type == H2_SETTINGS && !(flags & H2_ACK)) {
    h2_frame(&out, 0, H2_SETTINGS, H2_ACK, 0);
  } else if (type == H2_PING && !(flags & H2_ACK)) {
    h2_frame(&out, 8, H2_PING, H2_ACK, 0);
    append(&out, control.at, 8);
  } else if (type == H2_WINDOW && stream == 0) {
    uint32_t more;
    memcpy(&more, control.at, 4);
    window += ntohl(more);
  } else if (type == H2_GOAWAY) {
    die("etcd sent GOAWAY to the writer");
  } else if (type == H2_DATA) {
    got_data[slot] = 1;
    consumed += control.length;
  }
  if (stream && ((flags & H2_END_STREAM && (type == H2_HEADERS || type == H2_DATA)) || type == H2_RST)) {
    in_flight--;
    answered++;
    failed += !got_data[slot]; /* an error is trailers without a message */
    histogram_add(&put_delays, now_ns() - asked_ns[slot]);
  }
  if (consumed > 1u << 28) h2_window(&out, 0, (uint32_t)consumed), consumed = 0;
  control.length = 0;
}

static void receive(void) {
  static char buffer[1 << 16];
  ssize_t n = recv(fd, buffer, sizeof buffer, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) die("etcd closed the writer's connection");
  for (char *at = buffer, *end = buffer + n; at < end;) {
    if (frame_have < 9) {
      frame[frame_have++] = (uint8_t)*at++;
      if (frame_have < 9) continue;
      frame_left = (uint32_t)frame[0] << 16 | (uint32_t)frame[1] << 8 | frame[2];
    }
    size_t take = (size_t)(end - at) < frame_left ? (size_t)(end - at) : frame_left;
    append(&control, at, take);
    at += take;
    frame_left -= (uint32_t)take;
    if (frame_left == 0) frame_have = 0, take_frame();
  }
}

static void run(double rate, uint64_t count, uint64_t ms, uint64_t concurrency, uint64_t ahead, uint64_t watchers) {
  memset(&put_delays, 0, sizeof put_delays);
  uint64_t first = sequence, failed_before = failed, begin = now_ns(), end = begin + ms * 1000000ull, late_ns = 0;
  uint64_t carried = progress ? *progress / (watchers ? watchers : 1) : 0; /* deliveries before this run */
  int is_writing = 1;
  while (is_writing || in_flight) {
    uint64_t at = now_ns();
    if (is_writing && (sequence - first >= count || at >= end)) is_writing = 0;
    int wait_ms = in_flight ? 1000 : 0;
    while (is_writing && sequence - first < count && in_flight < concurrency && window > 65536 / 4) {
      if (rate > 0) {
        uint64_t due = begin + (uint64_t)((double)(sequence - first) * 1e9 / rate);
        if (at < due) {
          uint64_t left = due < end ? due - at : end - at;
          wait_ms = (int)(left / 1000000);
          break;
        }
        if (at - due > late_ns) late_ns = at - due;
      } else if (ahead && progress && sequence - first >= *progress / watchers - carried + ahead) {
        wait_ms = 1;
        break;
      }
      put_next();
      at = now_ns();
    }
    if (out.length) flush_out();
    struct epoll_event event;
    if (epoll_wait(epoll_fd, &event, 1, wait_ms) > 0) {
      if (event.events & EPOLLOUT) flush_out();
      if (event.events & ~(uint32_t)EPOLLOUT) receive();
      if (out.length) flush_out();
    }
  }
  printf("{\"event\":\"ran\",\"first\":%llu,\"next\":%llu,\"failed\":%llu,\"seconds\":%.6f,\"latestStartMs\":%.3f,\"putMs\":",
         (unsigned long long)first, (unsigned long long)sequence, (unsigned long long)(failed - failed_before),
         (double)(now_ns() - begin) / 1e9, (double)late_ns / 1e6);
  print_histogram(&put_delays);
  printf("}\n");
  fflush(stdout);
}

/* writer PORT OBJECTS PROGRESS */
int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: writer PORT OBJECTS PROGRESS\n");
    return 2;
  }
  load_objects(argv[2]);
  progress = map_progress(argv[3]);
  fd = connect_loopback(atoi(argv[1]), 0, 0);
  if (fd < 0) die("connect to etcd");
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event want = {.events = EPOLLOUT, .data.fd = fd};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &want);
  struct epoll_event event;
  epoll_wait(epoll_fd, &event, 1, 5000);
  h2_preface(&out);
  flush_out();
  char line[256];
  printf("{\"event\":\"ready\"}\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    double rate;
    unsigned long long count, ms, concurrency, ahead, watching;
    if (sscanf(line, "run %lf %llu %llu %llu %llu %llu", &rate, &count, &ms, &concurrency, &ahead, &watching) == 6) {
      while (recv(fd, line, 1, MSG_PEEK) > 0) receive(); /* pings and window updates since the last run */
      if (out.length) flush_out();
      run(rate, count, ms, concurrency < 30000 ? concurrency : 30000, ahead, watching);
    }
  }
  return 0;
}
