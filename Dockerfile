# The command hush in a container, as docs/guides/operator.md uses it: docker build -t hush .
FROM python:3.12-slim
COPY . /hush
RUN cd /hush && pip install --no-cache-dir -c constraints.txt '.[network]'
RUN useradd hush && mkdir /work && chown hush /work
USER hush
WORKDIR /work
ENTRYPOINT ["hush"]
